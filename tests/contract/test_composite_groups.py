"""PodGroups under a CompositePodGroup: the controller beside real Kubernetes components, which schedule a tree as one.

Kubernetes serves them from 1.37 on, with feature gates and API versions that are off by default.
"""

from collections.abc import Iterator

import pytest

from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    PODS,
    Api,
    NotFound,
    Object,
    Resource,
)
from testclusters.programs import default_kubernetes_version
from tests.contract.conftest import eventually
from tests.contract.running import message_of, nodes_of, remove, running, template_of_two, waits_because, with_gates

FLAGS = with_gates("GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true")


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The administrator of a cluster with CompositePodGroups, and a node of four cards in each of two fabrics."""
    if default_kubernetes_version() == "1.36":
        pytest.skip("Kubernetes 1.36 has no CompositePodGroup")
    with running({"a1": {"fabric": "a"}, "b1": {"fabric": "b"}}, {}, flags=FLAGS) as (_, api):
        template_of_two(api)
        yield api


def create(api: Api, kinds: tuple[Resource, ...], name: str, policy: Object, parent: str = "", key: str = "") -> None:
    """Create a group in the best version that is served."""
    spec: Object = {"schedulingPolicy": {"gang": policy}, "workloadRef": {"workloadName": "w", "templateName": name}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    for kind in kinds:
        try:
            api.create(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        except NotFound:
            continue
        return
    pytest.fail(f"the API serves no {kinds[0].kind}")


def create_tree(api: Api, name: str) -> None:
    """A tree with two groups, ``<name>-prefill`` and ``<name>-decode``, both in one fabric."""
    create(api, COMPOSITE_POD_GROUPS, name, {"minGroupCount": 2}, key="fabric")
    for group in ("prefill", "decode"):
        create(api, POD_GROUPS, f"{name}-{group}", {"minCount": 1}, name)


def create_pods(api: Api, group: str, count: int) -> list[str]:
    names = [f"{group}-{number}" for number in range(count)]
    for name in names:
        spec = {
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "cards", "resourceClaimTemplateName": "two"}],
            "schedulingGroup": {"podGroupName": group},
        }
        api.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    return names


def test_the_groups_of_a_tree_start_together_in_one_domain(api: Api) -> None:
    create_tree(api, "serve")
    prefill = create_pods(api, "serve-prefill", 1)
    eventually(lambda: "1 of 2 groups of CompositePodGroup default/serve complete" in message_of(api, prefill[0]), 60)
    pods = [*prefill, *create_pods(api, "serve-decode", 1)]
    nodes = eventually(lambda: nodes_of(api, *pods), 60)
    assert len(set(nodes)) == 1
    remove(api, *pods)


def test_a_tree_starts_with_all_pods_or_not_at_all(api: Api) -> None:
    create_tree(api, "large")
    pods = [*create_pods(api, "large-prefill", 2), *create_pods(api, "large-decode", 1)]
    eventually(lambda: "2 of 3 members fit in a" in message_of(api, pods[0]), 60)
    assert waits_because(api, pods[0], "Unallocatable")
    api.delete(PODS, pods[1], "default", grace_period_seconds=0)
    left = [pods[0], pods[2]]
    assert len(set(eventually(lambda: nodes_of(api, *left), 60))) == 1
    remove(api, *left)
