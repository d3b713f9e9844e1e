"""Pods of other systems: what is taken out, which claims they get, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from driver.adoption import SOURCES, Adoption, AdoptionSource, adopt

_HAMI, _VOLCANO, _ASCEND = (SOURCES[name] for name in ("hami", "volcano", "ascend"))


def _pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **metadata: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [_container(limits) for limits in containers]}
    if init:
        spec["initContainers"] = [_container(limits) for limits in init]
    return {"metadata": metadata, "spec": spec}


def _container(limits: dict[str, Any]) -> dict[str, Any]:
    sidecar = {"restartPolicy": "Always"} if limits.get("sidecar") else {}
    limits = {key: value for key, value in limits.items() if key != "sidecar"}
    return {"name": "it", "resources": {"limits": limits, "requests": dict(limits)}, **sidecar}


def _claims(adopted: Adoption, kind: str = "containers") -> list[list[str]]:
    return [[one["name"] for one in it["resources"].get("claims", [])] for it in adopted.pod["spec"][kind]]


def test_a_container_gets_a_claim_instead_of_its_resources() -> None:
    """In limits and in requests; everything else stays."""
    adopted = adopt(_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "3k", "cpu": "1"}), _HAMI)
    assert adopted.templates == {"lode-hami-0": "lode-adopt.hami.n1-m3000"}
    [container] = adopted.pod["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "1"},
        "claims": [{"name": "lode-hami-0"}],
    }
    assert adopted.pod["spec"]["resourceClaims"] == [
        {"name": "lode-hami-0", "resourceClaimTemplateName": "lode-adopt.hami.n1-m3000"}
    ]


def test_each_container_has_a_claim_of_its_own() -> None:
    """HAMi-core counts for a claim, so containers do not share one."""
    adopted = adopt(_pod({"volcano.sh/vgpu-memory": 1000}, {}, {"volcano.sh/vgpu-memory": 2000}), _VOLCANO)
    assert _claims(adopted) == [["lode-volcano-0"], [], ["lode-volcano-2"]]
    assert list(adopted.templates.values()) == ["lode-adopt.volcano.m1000", "lode-adopt.volcano.m2000"]


def test_gpu_memory_is_added_up_over_the_pod_on_one_card() -> None:
    """Volcano's gpu-memory; init containers run before the others."""
    pod = _pod(
        {"volcano.sh/gpu-memory": 1024}, {"volcano.sh/gpu-memory": 2048}, init=({"volcano.sh/gpu-memory": 4096},)
    )
    adopted = adopt(pod, _VOLCANO)
    assert adopted.templates == {"lode-volcano-gpu": "lode-adopt.volcano.s4096"}
    assert _claims(adopted) == [["lode-volcano-gpu"], ["lode-volcano-gpu"]]
    assert _claims(adopted, "initContainers") == [["lode-volcano-gpu"]]


@pytest.mark.parametrize(
    ("init", "claims", "templates"),
    [
        ({"nvidia.com/gpu": 1}, [["lode-hami-0"]], 1),
        ({"nvidia.com/gpu": 2}, [["lode-hami-0"]], 1),
        ({"nvidia.com/gpu": 3}, [["lode-hami-0", "lode-hami-init"]], 2),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10}, [["lode-hami-0"]], 1),
        ({"nvidia.com/gpu": 1, "sidecar": True}, [["lode-hami-i0"]], 2),
        ({}, [[]], 1),
    ],
)
def test_an_init_container_uses_the_claims_of_containers_that_start_later(
    init: dict[str, Any], claims: list[list[str]], templates: int
) -> None:
    """And one more for what is missing. A sidecar runs beside the others, and has its own."""
    adopted = adopt(_pod({"nvidia.com/gpu": 2}, init=(init,)), _HAMI)
    assert _claims(adopted, "initContainers") == claims
    assert len(adopted.templates) == templates


def test_annotations_that_mean_something_are_in_the_name() -> None:
    """In the order of the table, escaped; others are not looked at."""
    annotations = {"nvidia.com/nouse-gputype": "T4", "nvidia.com/use-gputype": "A100, V100-SXM2", "other": "é"}
    adopted = adopt(_pod({"nvidia.com/gpu": 1}, annotations=annotations), _HAMI)
    assert adopted.templates["lode-hami-0"] == "lode-adopt.hami.n1.t-a100-cv100-dsxm2.nt-t4"


def test_what_the_old_scheduler_wrote_is_no_request() -> None:
    """``gpu-index`` is output of Volcano once ``predicate-time`` is there."""
    annotations = {"volcano.sh/gpu-index": "3", "volcano.sh/predicate-time": "1"}
    assert adopt(_pod({"volcano.sh/gpu-number": 1}, annotations=annotations), _VOLCANO).templates == {
        "lode-volcano-0": "lode-adopt.volcano.w1"
    }


@pytest.mark.parametrize(
    ("source", "of_the_source"),
    [
        ("nvidia", {"volcano"}),
        ("hami", {"volcano", "hami-scheduler"}),
        ("volcano", {"volcano"}),
        ("ascend", {"volcano", "hami-scheduler"}),
        ("plain", {"volcano"}),
    ],
)
def test_the_scheduler_of_the_system_and_that_of_volcano_jobs_are_set_back(
    source: str, of_the_source: set[str]
) -> None:
    table = SOURCES[source]
    if source == "plain":
        table = replace(table, resources={"amd.com/gpu": "gpu.example.com"})
    pod = _pod({next(iter(table.resources)): 1})
    back = set()
    for scheduler in ("volcano", "hami-scheduler", "mine"):
        pod["spec"]["schedulerName"] = scheduler
        scheduled = adopt(pod, table).pod["spec"]["schedulerName"]
        assert scheduled in (scheduler, "default-scheduler")
        back |= {scheduler} if scheduled != scheduler else set()
    assert back == of_the_source


def test_a_priority_is_a_variable_of_the_container() -> None:
    """HAMi's webhook sets the same."""
    adopted = adopt(_pod({"nvidia.com/gpu": 1, "nvidia.com/priority": 1}), _HAMI)
    assert adopted.pod["spec"]["containers"][0]["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]


def test_zero_devices_are_no_claim() -> None:
    """The resources go, and nothing comes."""
    adopted = adopt(_pod({"volcano.sh/vgpu-number": 0, "volcano.sh/vgpu-memory": 100}), _VOLCANO)
    assert adopted.templates == {}
    assert adopted.pod["spec"]["containers"] == [{"name": "it", "resources": {}}]


@pytest.mark.parametrize("pod", [_pod({"cpu": 1}), {"spec": {"containers": []}}, {}, {"metadata": None, "spec": None}])
def test_other_pods_are_left_as_they_are(pod: dict[str, Any]) -> None:
    """Also odd ones."""
    assert adopt(pod, _HAMI) == Adoption(pod)


def test_a_pod_with_a_node_is_left_alone() -> None:
    """Nobody schedules it."""
    pod = _pod({"nvidia.com/gpu": 1})
    pod["spec"]["nodeName"] = "n1"
    assert adopt(pod, _HAMI) == Adoption(pod)


@pytest.mark.parametrize(
    ("source", "limits", "annotations", "said"),
    [
        (_VOLCANO, {"volcano.sh/vgpu-memory": 1}, {"volcano.sh/vgpu-mode": "mps"}, "use hami-core or mig"),
        (_VOLCANO, {"volcano.sh/vgpu-memory": 1}, {"nvidia.com/nouse-gputype": ""}, "excludes every card"),
        (_VOLCANO, {"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 1}, {}, "remove one of them"),
        (_ASCEND, {"huawei.com/Ascend310P-memory": 24577}, {}, "ask for less"),
        (_ASCEND, {"huawei.com/Ascend310P": 2, "huawei.com/Ascend310P-memory": 3072}, {}, "given whole"),
        (_VOLCANO, {"volcano.sh/vgpu-cores": 101}, {}, "write 1 to 100"),
        (_VOLCANO, {"volcano.sh/vgpu-memory": "1Gi"}, {}, "write 1024 instead of 1Gi"),
        (_VOLCANO, {"volcano.sh/vgpu-memory-percentage": 101}, {}, "write 1 to 100"),
        (_HAMI, {"nvidia.com/gpu": 33}, {}, "at most 32"),
        (_HAMI, {"nvidia.com/gpu": "0.5"}, {}, "a whole number"),
        (_HAMI, {"nvidia.com/gpu": "many"}, {}, "a whole number"),
        (_HAMI, {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 10**10}, {}, "at most 9999999999"),
        (_HAMI, {"nvidia.com/gpu": 1}, {"nvidia.com/use-gputype": "A100;V100"}, "change the value"),
        (_HAMI, {"nvidia.com/gpu": 1}, {"nvidia.com/use-gpuuuid": "GPU-1," * 60 + "GPU-2"}, "shorten"),
    ],
)
def test_a_pod_that_cannot_be_kept_is_refused_with_the_remedy(
    source: AdoptionSource, limits: dict[str, Any], annotations: dict[str, str], said: str
) -> None:
    """Unchanged, with the field and the value."""
    pod = _pod(limits, annotations=annotations)
    adopted = adopt(pod, source)
    assert adopted.pod == pod
    assert said in " ".join(broken.remedy for broken in adopted.refused)
    assert all(broken.field and broken.value is not None for broken in adopted.refused)


def test_all_faults_are_said_at_once() -> None:
    """Of all containers, and of the annotations."""
    pod = _pod(
        {"volcano.sh/vgpu-cores": 101}, {"volcano.sh/vgpu-memory": "1Gi"}, annotations={"volcano.sh/vgpu-mode": "x"}
    )
    assert [broken.field for broken in adopt(pod, _VOLCANO).refused] == [
        "spec.containers[0].resources.limits[volcano.sh/vgpu-cores]",
        "spec.containers[1].resources.limits[volcano.sh/vgpu-memory]",
        "metadata.annotations[volcano.sh/vgpu-mode]",
    ]


def test_an_entry_without_effect_is_only_noted() -> None:
    """An empty entry in a list of types."""
    adopted = adopt(_pod({"volcano.sh/gpu-number": 1}, annotations={"nvidia.com/use-gputype": "A100,"}), _VOLCANO)
    assert adopted.templates
    assert [broken.value for broken in adopted.noted] == ["A100,"]
