"""Pods of other systems in a real API server: the policies do as ``driver.adoption`` says."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from charts.adoption import MOST_TOLD
from driver.adoption import PLAIN, SOURCES, AdoptionSource, adopt
from driver.adoption.rules import UNEQUAL
from driver.adoption.sources import CardAmounts
from tests.adoption_cases import ADOPTION_CASES, MIG_PROFILES, AdoptionCase, claims_of, env_of, resources_of, uses_of
from tests.contract.adopting import PLAIN_CLASSES, adopting, adopts, create, gated
from tests.contract.identity import Identity, Object, Response, eventually
from tests.peers import VARIABLE, peers_files

TABLES = {**SOURCES, PLAIN: replace(SOURCES[PLAIN], resources=PLAIN_CLASSES)}


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of an API server with all sources."""
    with adopting() as admin:
        yield admin


def has_become(pod: Object) -> dict[str, Any]:
    """What adoption changes of a pod."""
    return {
        "claims": claims_of(pod),
        "uses": uses_of(pod),
        "env": env_of(pod),
        "resources": resources_of(pod),
        "scheduler": pod["spec"].get("schedulerName", "default-scheduler"),
    }


@pytest.mark.parametrize("case", ADOPTION_CASES, ids=str)
def test_a_pod_is_admitted_or_refused_as_expected(admin: Identity, case: AdoptionCase) -> None:
    answer = create(admin, case.source, case.written())
    if any(remedy in UNEQUAL for remedy in case.refused.values()):
        assert answer.status == 422  # Kubernetes is asked first
        return
    if case.refused:
        assert answer.status == 403
        for field, remedy in case.refused.items():
            assert any(field in part and remedy in part for part in answer.message.split("; ")), answer.message
        return
    pod = answer.must()
    assert claims_of(pod) == case.claims
    assert uses_of(pod) == case.uses
    assert env_of(pod) == case.env
    assert not case.table.taken(resources_of(pod))
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert gated(pod) == bool(case.claims)
    told = told_by(answer)
    assert len(told) == len(case.warned), answer.warnings
    for field, remedy in case.warned.items():
        assert any(field in part and remedy in part for part in told), answer.warnings


def told_by(answer: Response) -> list[str]:
    """What the warning tells, if there is one."""
    assert len(answer.warnings) < 2
    return [part for warning in answer.warnings for part in re.split("; (?=spec|metadata)", warning)]


MIG_NAMES = [
    *(f"nvidia.com/mig-{name}" for name in ("1g.24gb.me.all", "1g.24gb-me", "7g.278gb", "1g.10gb", "2g.48gb.gfx")),
    *("nvidia.com/mig-1g.24gb.me.shared", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.24gb.xyz"),
]
"""Of patterns, and one that no pattern has."""
AMOUNTS = st.sampled_from([0, 1, 2, 3, "1k", "3k", 8, 16, 31, 33, 100, 101, 1000, 24576, "1Gi", "4M", 10**10])
TEXTS = st.sampled_from(
    [
        *("", "A100", "A100,V100", " a100, T4 ", "T4,", "GPU-0a,GPU-1b", "0,2"),
        *("mig", "MPS", "hami-core", "spread", "Binpack", "numa", "true", "low", "high", "no"),
        *("é", "a;b", "x\ny", "\tT4 ,\n A10", "long-" * 40, "1,".join("abcdefgh") * 16),
    ]
)


@st.composite
def pods(draw: st.DrawFn, source: AdoptionSource) -> Object:
    """Pods that ask for resources of the source and others, and have its annotations and labels."""
    keys = {rule.key for rule in source.rules if hasattr(rule, "key")} | {*source.annotations, *source.outputs}
    keys |= {"other", "hami.io/other"}
    names = [*source.listed[:8], *source.listed[-8:], *MIG_NAMES, "cpu"]

    def container(name: str) -> Object:
        asked = draw(st.dictionaries(st.sampled_from(names), AMOUNTS, max_size=3))
        requests = draw(st.sampled_from([{}, {}, {}, {}, asked, {names[0]: 1}]))
        privileged = {"securityContext": {"privileged": draw(st.booleans())}}
        return {"name": name, "image": "none", "resources": {"limits": asked, "requests": requests}, **privileged}

    spec: Object = {"containers": [container(f"c{index}") for index in range(draw(st.integers(1, 3)))]}
    inits = [container(f"i{index}") for index in range(draw(st.integers(0, 2)))]
    for one in inits:
        if draw(st.booleans()):
            one["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    if draw(st.booleans()):
        spec["schedulerName"] = draw(st.sampled_from(["volcano", "hami-scheduler", "mine"]))
    metadata: Object = {
        "generateName": "pod-",
        "annotations": draw(st.dictionaries(st.sampled_from(sorted(keys)), TEXTS, max_size=3)),
    }
    metadata["labels"] = draw(
        st.dictionaries(st.sampled_from([*source.labels, "app"]), st.sampled_from(["low", "HIGH", "yes", "", "a_b"]))
    )
    return {"metadata": metadata, "spec": spec}


@st.composite
def pods_with_inits(draw: st.DrawFn, source: AdoptionSource) -> Object:
    """Pods with init containers and sidecars in any order, which ask for whole cards and for parts of them."""
    cards = draw(st.sampled_from(source.cards)) if source.cards else CardAmounts(next(iter(source.resources)))
    others = [*(name for name in source.resources if name not in cards.resources), *source.shared]
    others += MIG_NAMES[:2] if source.migs else []
    amounts = {
        cards.count: st.integers(1, 4) if not cards.unit else st.sampled_from([1, 2, 4, 8, 16]),
        cards.memory: st.sampled_from([1000, 2000, 3000]),
        cards.percent: st.sampled_from([10, 50, 100]),
        cards.cores: st.sampled_from([10, 30, 100]),
    }
    asked = st.fixed_dictionaries({}, optional={name: one for name, one in amounts.items() if name})
    if others:
        asked |= st.dictionaries(st.sampled_from(others[:2] + others[-1:]), st.integers(1, 3), max_size=1)

    def container(name: str, sidecar: bool) -> Object:
        return {
            "name": name,
            "image": "none",
            "resources": {"limits": draw(asked)},
            **({"restartPolicy": "Always"} if sidecar else {}),
        }

    containers = [container(f"c{index}", False) for index in range(draw(st.integers(1, 3)))]
    inits = [container(f"i{index}", draw(st.booleans())) for index in range(draw(st.integers(1, 4)))]
    mode = st.sampled_from([{}, {"huawei.com/vnpu-mode": "hami-core"}])
    metadata = {"generateName": "pod-", "annotations": draw(mode)}
    return {"metadata": metadata, "spec": {"containers": containers, "initContainers": inits}}


@pytest.mark.parametrize("generated", [pods, pods_with_inits], ids=["any", "inits"])
@pytest.mark.parametrize("name", TABLES)
@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_the_policies_do_what_the_function_does(
    admin: Identity, name: str, generated: Callable[[AdoptionSource], st.SearchStrategy[Object]], data: st.DataObject
) -> None:
    source = TABLES[name]
    pod = data.draw(generated(source))
    expected = adopt(pod, source)
    answer = create(admin, name, pod)
    if not expected.refused:
        assert has_become(answer.must()) == has_become({**expected.pod})
        told = told_by(answer)
        assert len(told) == min(len(expected.noted), MOST_TOLD)
        for part in told:
            assert any(it.field in part and it.remedy in part for it in expected.noted)
        return
    if any(broken.remedy == UNEQUAL for broken in expected.refused):
        assert answer.status == 422
        return
    assert answer.status == 403
    assert "and cannot be adopted: " in answer.message or len(expected.refused) > MOST_TOLD
    if len(expected.refused) <= MOST_TOLD:
        for broken in expected.refused:
            assert broken.field in answer.message
            assert broken.remedy in answer.message


def asking(**spec: Any) -> Object:
    """A pod with one container that asks for a card."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"metadata": {"name": "pod"}, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize("name", ["nvidia", "hami"])
def test_every_mig_resource_is_adopted(admin: Identity, name: str) -> None:
    """Whatever sizes the profiles of a card have."""
    for first in range(0, len(MIG_PROFILES), 6):
        names = list(MIG_PROFILES)[first : first + 6]
        limits = {f"nvidia.com/mig-{one}": number for number, one in enumerate(names, 1)}
        container = {"name": "main", "image": "none", "resources": {"limits": limits}}
        pod = {"metadata": {"name": "pod"}, "spec": {"containers": [container]}}
        assert claims_of(create(admin, name, pod).must()) == adopt(pod, SOURCES[name]).templates


def test_a_pod_in_another_namespace_or_with_a_node_is_left_alone(admin: Identity) -> None:
    for namespace, pod in (("none", asking()), ("hami", asking(nodeName="n1"))):
        admitted = create(admin, namespace, pod).must()
        assert not claims_of(admitted)
        assert "nvidia.com/gpu" in resources_of(admitted)
        assert not gated(admitted)


def test_other_entries_and_gates_stay(admin: Identity) -> None:
    pod = asking(
        resourceClaims=[{"name": "mine", "resourceClaimName": "c"}], schedulingGates=[{"name": "example.com/queue"}]
    )
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "mine"}]
    admitted = create(admin, "hami", pod).must()
    assert [entry["name"] for entry in admitted["spec"]["resourceClaims"]] == ["mine", "lode-hami-0"]
    assert uses_of(admitted) == {"main": ["mine", "lode-hami-0"]}
    assert gated(admitted)
    assert {"name": "example.com/queue"} in admitted["spec"]["schedulingGates"]


def test_a_pod_with_very_many_containers_is_adopted_or_refused_at_once(admin: Identity) -> None:
    """What an expression may cost is bounded by the API server."""
    answers = {}
    for count in (64, 512):
        pod = asking()
        [one] = pod["spec"]["containers"]
        pod["spec"]["containers"] = [{**one, "name": f"c{number}"} for number in range(count)]
        pod["spec"]["initContainers"] = [{**one, "name": f"i{number}"} for number in range(count)]
        answers[count] = create(admin, "hami", pod)
    assert len(claims_of(answers[64].must())) == 64
    assert answers[512].status == 403
    assert "adopt-hami.lode.dev" in answers[512].message


def test_fields_that_occur_twice_stay(admin: Identity) -> None:
    """The API allows names of variables and numbers of ports twice."""
    pod = asking()
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "CUDA_TASK_PRIORITY", "value": "0"}]
    ports = [{"containerPort": 80}, {"containerPort": 80, "name": "web"}]
    pod["spec"]["containers"][0] |= {"env": env, "ports": ports}
    admitted = create(admin, "hami", pod).must()
    [container] = admitted["spec"]["containers"]
    assert container["env"] == env
    assert [port["containerPort"] for port in container["ports"]] == [80, 80]
    assert uses_of(admitted) == {"main": ["lode-hami-0"]}


def test_the_gate_is_left_out_where_the_namespace_says_so(admin: Identity) -> None:
    labels = {"lode.dev/adopt-hami": "on", "lode.dev/gate": "off"}
    admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": "no-gate", "labels": labels}}).must()
    eventually("the namespace counts", lambda: adopts(admin, "no-gate", asking()))
    assert not gated(create(admin, "no-gate", asking()).must())


def test_a_namespace_with_two_sources_of_the_same_resource_is_told_so(admin: Identity) -> None:
    labels = {"lode.dev/adopt-hami": "on", "lode.dev/adopt-nvidia": "on"}
    admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": "both", "labels": labels}}).must()
    eventually("the namespace counts", lambda: create(admin, "both", asking()).status == 403)
    assert "labels lode.dev/adopt-" in create(admin, "both", asking()).message
    assert "remove one of them" in create(admin, "both", asking()).message


def test_a_pod_that_no_policy_took_over_is_refused_with_the_remedy(admin: Identity) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/adopt-ascend.lode.dev"
    binding = admin.get(path)
    admin.request("DELETE", path).must()
    container = {"name": "a", "image": "none", "resources": {"limits": {"huawei.com/Ascend910": 1}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    refused = eventually("it is gone", lambda: (it := create(admin, "ascend", pod)).status == 403 and it)
    assert "apply manifests/adopt/ascend again, or remove the label lode.dev/adopt-ascend" in refused.message
    del binding["metadata"]["resourceVersion"]
    admin.request("POST", path.rpartition("/")[0], binding).must()
    eventually("it is back", lambda: create(admin, "ascend", pod).ok)


def test_an_adopted_pod_can_be_changed_as_any_other(admin: Identity) -> None:
    """Ephemeral containers and labels: nothing of it is an adoption."""
    admin.request("POST", "/api/v1/namespaces/hami/serviceaccounts", {"metadata": {"name": "default"}})
    stored = create(admin, "hami", {**asking(), "metadata": {"name": "stored"}}, store=True).must()
    path = f"/api/v1/namespaces/hami/pods/{stored['metadata']['name']}"
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}}
    assert admin.request("PATCH", f"{path}/ephemeralcontainers", added, patch="strategic-merge").ok
    changed = admin.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}).must()
    assert claims_of(changed) == claims_of(stored)


FOLDERS = {"hami-nvidia": "hami", "volcano-vgpu": "volcano", "volcano-deviceshare": "volcano", "ascend": "ascend"}
FOLDERS |= {"hami-ascend": "ascend", "nvidia-device-plugin": "nvidia"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_manifests_of_the_other_systems_are_adopted_as_they_are(admin: Identity, folder: str) -> None:
    files = peers_files(folder)
    if not files:
        pytest.skip(f"manifests of {folder} are not at hand; set {VARIABLE} to the folder that has them")
    source = SOURCES[FOLDERS[folder]]
    for obj in (obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj):
        template = obj if obj["kind"] == "Pod" else obj["spec"]["template"]
        pod = {"metadata": {**template.get("metadata", {}), "name": "pod"}, "spec": template["spec"]}
        expected = adopt(pod, source)
        assert expected.templates
        assert not expected.refused
        admitted = create(admin, source.name, pod).must()
        assert has_become(admitted) == has_become({**expected.pod})
        assert gated(admitted)
