"""PodGroups, where the API serves them: the controller beside real Kubernetes components.

Kubernetes serves its own only with feature gates and API versions that are off by default. Those of Volcano are a
CustomResourceDefinition.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from driver.kube.api import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Api,
    NotFound,
    Object,
)
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.running import (
    SETTINGS,
    message_of,
    nodes_of,
    remove,
    running,
    template_of_two,
    waits,
    waits_because,
    with_gates,
)

FLAGS = with_gates("GenericWorkload=true,DRAWorkloadResourceClaims=true")
DOCS = Path(__file__).parent.parent.parent / "docs" / "simulate.md"
CLAIM = {"name": "cards", "resourceClaimTemplateName": "two"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    """A cluster with PodGroups, and a node of four cards in each of two fabrics."""
    nodes = {"a1": {"fabric": "a"}, "b1": {"fabric": "b"}}
    with running(nodes, {"1": {"nodeLabel": "fabric"}}, flags=FLAGS) as cluster:
        template_of_two(cluster[1])
        yield cluster


@pytest.fixture
def plane(cluster: tuple[ControlPlane, Api]) -> ControlPlane:
    return cluster[0]


@pytest.fixture
def api(cluster: tuple[ControlPlane, Api]) -> Api:
    """The administrator."""
    return cluster[1]


def group(name: str, policy: Object, *claims: Object) -> Object:
    spec = {"schedulingPolicy": policy, **({"resourceClaims": [*claims]} if claims else {})}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def member(name: str, of: str, *, volcano: bool = False) -> Object:
    named = {} if volcano else {"schedulingGroup": {"podGroupName": of}}
    annotations = {"scheduling.k8s.io/group-name": of} if volcano else {}
    spec = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": [CLAIM], **named}
    return {"metadata": {"name": name, "namespace": "default", "annotations": annotations}, "spec": spec}


def claim_of(api: Api, pod: str) -> Object:
    (status,) = api.get(PODS, pod, "default")["status"]["resourceClaimStatuses"]
    return api.get(RESOURCE_CLAIMS, status["resourceClaimName"], "default")


def create_group(api: Api, obj: Object) -> Object:
    """Create a PodGroup in the best version that is served."""
    for kind in POD_GROUPS:
        try:
            return api.create(kind, obj)
        except NotFound:
            continue
    pytest.fail("the API serves no PodGroup")


@pytest.mark.parametrize("minimum", [2, 3])
def test_a_pod_group_of_volcano_stays_in_the_domain_of_its_tier(api: Api, minimum: int) -> None:
    name = f"volcano-{minimum}"
    spec = {"minMember": minimum, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    api.create(VOLCANO_POD_GROUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    names = [f"{name}-{number}" for number in range(minimum)]
    for pod in names:
        api.create(PODS, member(pod, name, volcano=True))
    if minimum == 2:
        assert eventually(lambda: nodes_of(api, *names), 60) == ["a1", "a1"]
    else:
        eventually(lambda: "2 of 3 members fit in a" in message_of(api, names[0]))
    remove(api, *names)


def role(*, gangs: bool) -> str:
    """The ClusterRole of the documentation, or what is left of it without the rules for gangs."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    found = yaml.safe_load(next(block for block in blocks if "ClusterRole" in block))
    rules = [rule for rule in found["rules"] if gangs or "podgroups" not in rule["resources"]]
    return json.dumps({**found, "rules": rules})


@pytest.mark.parametrize("volcano", [False, True], ids=["Kubernetes", "Volcano"])
def test_explain_says_the_same_as_the_controller_with_the_rights_of_the_documented_role(
    api: Api, plane: ControlPlane, capsys: pytest.CaptureFixture[str], volcano: bool
) -> None:
    name = f"told-{volcano}".lower()
    if volcano:
        spec = {"minMember": 5, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        api.create(VOLCANO_POD_GROUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    else:
        create_group(api, group(name, {"gang": {"minCount": 5}}))
    names = [f"{name}-{number}" for number in range(5)]
    for pod in names:
        api.create(PODS, member(pod, name, volcano=volcano))
    eventually(lambda: waits(api, names[0]))
    user = str(plane.kubeconfig(name, ()))
    options = ["-n", "default", "--kubeconfig", user, "--settings", str(plane.folder / SETTINGS), "-o", "json"]

    def explained() -> Any:
        status, out = lode(["explain", f"pod/{names[0]}", *options]), capsys.readouterr().out
        return json.loads(out) if status == 1 else None

    plane.kubectl("apply", "-f", "-", input=role(gangs=False))
    plane.kubectl("create", "clusterrolebinding", name, "--clusterrole=lode-explain", f"--user={name}")
    notes = eventually(explained)["notes"]
    assert any("you may not list podgroups" in note and "how many members gangs have" in note for note in notes), notes
    plane.kubectl("apply", "-f", "-", input=role(gangs=True))

    def both_say_the_same() -> Any:
        told, found = waits(api, names[0]), explained()
        return told is not None and found and all(told[field] == found[field] for field in ("reason", "message"))

    eventually(both_say_the_same)
    remove(api, *names)


def test_a_pod_group_starts_together_or_not_at_all(api: Api) -> None:
    create_group(api, group("all", {"gang": {"minCount": 2}}))
    names = ["all-0", "all-1"]
    for name in names:
        api.create(PODS, member(name, "all"))
    eventually(lambda: nodes_of(api, *names), 60)
    create_group(api, group("none", {"gang": {"minCount": 3}}))
    for number in range(3):
        api.create(PODS, member(f"none-{number}", "none"))
    eventually(lambda: "2 of 3 members fit" in message_of(api, "none-0"))
    assert waits_because(api, "none-0", "Unallocatable")
    assert not any(claim_of(api, f"none-{number}").get("status", {}).get("allocation") for number in range(3))
    remove(api, *names, "none-0", "none-1", "none-2")


def test_the_pods_of_a_gang_share_the_claim_of_their_pod_group(api: Api) -> None:
    made = create_group(api, group("shared", {"gang": {"minCount": 3}}, CLAIM))
    names = [f"shared-{number}" for number in range(3)]
    for name in names:
        api.create(PODS, member(name, "shared"))
    assert len(set(eventually(lambda: nodes_of(api, *names), 60))) == 1
    stored = claim_of(api, names[0])
    assert {claim_of(api, name)["metadata"]["uid"] for name in names} == {stored["metadata"]["uid"]}
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "shared"}
    assert stored["status"]["reservedFor"] == [{**consumer, "uid": made["metadata"]["uid"]}]
