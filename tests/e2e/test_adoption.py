"""Pods and claims that were written for other systems run as they are, and get what they asked for."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.clock import rfc3339
from testclusters.kind import KindCluster
from tests.e2e import flavors, peers_images
from tests.e2e.adopted import ADOPTION, Got, adopt_from, devices_of, got
from tests.e2e.client import Client, Object, eventually, eventually_none
from tests.e2e.pods import SLEEP
from tests.e2e.watcher import Watcher
from tests.peers import peers_file, peers_files

SOURCES = {
    "nvidia-device-plugin": "nvidia",
    "hami-nvidia": "hami",
    "hami-ascend": "ascend",
    "volcano-deviceshare": "volcano",
    "volcano-vgpu": "volcano",
    "ascend": "ascend",
    "nvidia-dra": "",
}
"""The folders of other projects' manifests, and the system that their pods are written for; "" for claims."""


@pytest.fixture(scope="module", autouse=True)
def adoption(client: Client, cluster: KindCluster, watcher: Watcher) -> Iterator[None]:
    """Install adoption of every system, and the default flavor again afterwards."""
    files = [file for folder in SOURCES for file in peers_files(folder)]
    if images := {image for file in files for image in peers_images.images_in(file.read_text())}:
        peers_images.load(cluster, images)
    flavors.install(client, ADOPTION)
    _learn(client, watcher)
    yield
    flavors.install(client, flavors.CONTROLLER_ALLOCATED, ADOPTION)
    _learn(client, watcher)


def _learn(client: Client, watcher: Watcher) -> None:
    for raw in client.list("resourceslices", fields="spec.driver=lode.dev"):
        watcher.learn(raw)


def end_quickly(client: Client, namespace: str) -> None:
    """Delete all pods and their owners: most programs in manifests of peers do not end on SIGTERM."""
    client.delete(namespace, "deployments,jobs", wait=False)
    client.kubectl("delete", "pods", "--all", f"--namespace={namespace}", "--grace-period=1", timeout=150)


# The manifests of other projects, byte for byte

PEERS: list[tuple[str, Got]] = [
    ("nvidia-device-plugin/job-1.yaml", {"cuda-container": [["gpu"]]}),
    ("hami-nvidia/default_use.yaml", {"ubuntu-container": [["gpu-share 3000 30"]]}),
    ("hami-nvidia/example.yaml", {"cuda-sample-vector-add": [["gpu-share 3000 0"]]}),
    ("hami-nvidia/mig_example.yaml", {"ubuntu-container": [["mig 3g.20gb"]]}),
    ("hami-nvidia/specify_card_type_not_use.yaml", {"ubuntu-container": [["gpu", "gpu"]]}),
    ("hami-nvidia/specify_card_type_to_use.yaml", {"ubuntu-container": [["gpu", "gpu"]]}),
    ("hami-nvidia/specify_uuid_not_use.yaml", {"ubuntu-container": [["gpu", "gpu"]]}),
    ("hami-nvidia/use_as_normal.yaml", {"ubuntu-container": [["gpu"], ["gpu"]]}),
    ("hami-nvidia/use_exclusive_card.yaml", {"ubuntu-container": [["gpu", "gpu"]]}),
    (
        "hami-nvidia/use_sharing_card.yaml",
        {"ubuntu-container": [["gpu-share 32624 60"], ["gpu-share 48936 40"]]},
    ),
    ("hami-ascend/job-310P.yaml", {"ubuntu-container": [["vnpu vir01"]]}),
    ("volcano-deviceshare/gpu-share.yml", {"pod1-ctr": [["gpu-share 1024 0"]]}),
    ("volcano-vgpu/vgpu-case01.yml", {"pod1-ctr": [["gpu-share 1024 0"]]}),
    ("volcano-vgpu/vgpu-deployment.yaml", {"resnet101-container": [["gpu-share 16384 0"]] * 10}),
    ("ascend/ascendjob-310p.yaml", {"ubuntu-container": [["vnpu vir01"]]}),
]


LIKE_OTHERS = {
    f"hami-nvidia/{name}.yaml"
    for name in ("example", "specify_card_type_not_use", "specify_uuid_not_use", "use_as_normal", "use_exclusive_card")
}
"""Manifests whose resources and annotations others have, too."""


def pods_in(file: Path) -> int:
    """How many pods the objects of a manifest stand for."""
    objects = [obj for obj in yaml.safe_load_all(file.read_text()) if obj]
    return sum(obj["spec"].get("replicas", 1) for obj in objects if obj["kind"] in ("Pod", "Job", "Deployment"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(path, expected, id=path, marks=[pytest.mark.release] if path in LIKE_OTHERS else [])
        for path, expected in PEERS
    ],
)
def test_manifests_of_other_systems_run_as_they_are(client: Client, namespace: str, path: str, expected: Got) -> None:
    file = peers_file(path)
    adopt_from(client, namespace, SOURCES[path.partition("/")[0]])
    client.kubectl("apply", f"--namespace={namespace}", "-f", str(file))
    eventually("every pod exists", lambda: len(client.list("pods", namespace)) == pods_in(file))
    client.wait_until_ready(namespace)
    found = got(client, namespace)
    assert {name: sorted(each) for name, each in found.items()} == expected
    if "card_type_to_use" in path:
        a100 = client.cluster.workers[1]
        assert {device.partition("/")[0] for device in devices_of(client, namespace)} == {a100}
    end_quickly(client, namespace)


def test_what_no_node_has_waits_with_the_reason(client: Client, namespace: str) -> None:
    file = peers_file("hami-ascend/job-910B3.yaml")
    adopt_from(client, namespace, "ascend")
    client.kubectl("apply", f"--namespace={namespace}", "-f", str(file))
    eventually("it is told", lambda: "Impossible: " in client.messages(namespace, "ascend910b3-job"))
    end_quickly(client, namespace)


CLAIMS: list[tuple[str, Got]] = [
    ("gpu-test1", {"ctr": [["gpu"], ["gpu"]]}),
    ("gpu-test2", {"ctr0": [["gpu"]], "ctr1": [["gpu"]]}),
    (
        "gpu-test4",
        {
            "ctr0": [["mig 1g.5gb"]] * 4,
            "ctr1": [["mig 1g.5gb"]] * 4,
            "ctr2": [["mig 2g.10gb"]] * 4,
            "ctr3": [["mig 3g.20gb"]] * 4,
        },
    ),
]


@pytest.mark.parametrize(("name", "expected"), CLAIMS)
def test_claims_for_nvidias_dra_driver_are_served_as_they_are(
    client: Client, watcher: Watcher, name: str, expected: Got
) -> None:
    file = peers_file(f"nvidia-dra/{name}.yaml")
    try:
        client.kubectl("apply", "-f", str(file))
        eventually("every pod exists", lambda: len(client.list("pods", name)) == pods_in(file))
        client.wait_until_ready(name)
        assert got(client, name) == expected
    finally:
        client.kubectl("delete", "-f", str(file), "--ignore-not-found", "--grace-period=1", timeout=150)
    eventually_none("no device is held", lambda: watcher.held(name))


def test_time_slices_for_nvidias_dra_driver_are_set_as_far_as_there_are_such_cards(
    client: Client, watcher: Watcher
) -> None:
    """Of the four cards, the selector takes those with the numbers 0 and 2."""
    file = peers_file("nvidia-dra/gpu-test6.yaml")
    a100 = client.cluster.workers[1]
    try:
        client.kubectl("apply", "-f", str(file))
        cards = {f"{a100}/lode.dev/gpu-{number}" for number in (0, 2)}
        eventually("both cards are allocated", lambda: devices_of(client, "gpu-test6") == cards)
        state = "/var/lib/kubelet/plugins/lode.dev/simulated.json"

        def intervals() -> list[str]:
            existing = json.loads(client.cluster.node_exec(a100, "cat", state).stdout)["existing"]
            return [it["action"].get("interval", "") for it in existing]

        eventually("both have long time slices", lambda: intervals() == ["long", "long"])
    finally:
        client.kubectl("delete", "-f", str(file), "--ignore-not-found", "--grace-period=1", timeout=150)
    eventually_none("no device is held", lambda: watcher.held("gpu-test6"))


# Manifests of our own


def container(name: str, limits: Object | None = None, **more: Any) -> Object:
    return {
        "name": name,
        "image": "lode-test/busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "command": SLEEP,
        "resources": {"limits": limits} if limits else {},
        **more,
    }


def spec(*containers: Object, **more: Any) -> Object:
    return {"terminationGracePeriodSeconds": 1, "containers": list(containers), **more}


def a_pod(name: str, *containers: Object, annotations: Object | None = None, **more: Any) -> Object:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(*containers, **more)}


def first(name: str, limits: Object) -> Object:
    """An init container that ends at once."""
    return container(name, limits, command=["true"])


OWN: dict[str, tuple[list[Object], Got]] = {
    "nvidia": (
        [
            a_pod("cards", container("two", {"nvidia.com/gpu": 2}), container("one", {"nvidia.com/gpu": 1})),
            a_pod("part", container("mig", {"nvidia.com/mig-1g.5gb": 1})),
            a_pod("none", container("without")),
        ],
        {"two": [["gpu", "gpu"]], "one": [["gpu"]], "mig": [["mig 1g.5gb"]], "without": [[]]},
    ),
    "hami": (
        [
            a_pod(
                "share",
                container("part", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "3k", "nvidia.com/gpucores": 30}),
                initContainers=[first("before", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "3k"})],
                schedulerName="hami-scheduler",
            ),
            a_pod(
                "of-a-type",
                container("half", {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}),
                annotations={"nvidia.com/use-gputype": "A100", "hami.io/gpu-scheduler-policy": "binpack"},
            ),
        ],
        {"part": [["gpu-share 3000 30"]], "half": [["gpu-share 20480 0"]]},
    ),
    "volcano": (
        [
            a_pod(
                "summed",
                container("left", {"volcano.sh/gpu-memory": 1024}),
                container("right", {"volcano.sh/gpu-memory": 2048}),
                schedulerName="volcano",
            ),
            a_pod("whole", container("cards", {"volcano.sh/gpu-number": 2}), schedulerName="volcano"),
            a_pod("vgpu", container("vgpu", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 20})),
        ],
        {
            "left": [["gpu-share 3072 0"]],
            "right": [["gpu-share 3072 0"]],
            "cards": [["gpu", "gpu"]],
            "vgpu": [["gpu-share 81559 20"]],
        },
    ),
    "ascend": (
        [
            a_pod("chip", container("chip", {"huawei.com/Ascend310P": 1})),
            a_pod("part", container("vnpu", {"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 2000})),
        ],
        {"chip": [["npu"]], "vnpu": [["vnpu vir01"]]},
    ),
}


@pytest.mark.parametrize("source", OWN)
def test_the_same_resources_and_annotations_get_the_same(client: Client, namespace: str, source: str) -> None:
    pods, expected = OWN[source]
    adopt_from(client, namespace, source)
    client.create(namespace, *pods)
    client.wait_until_ready(namespace, *(it["metadata"]["name"] for it in pods))
    assert got(client, namespace) == expected
    left = [it["spec"].get("schedulerName") for it in client.list("pods", namespace)]
    assert set(left) == {"default-scheduler"}


def workload(kind: str, api: str, **more: Any) -> Object:
    name = kind.lower()
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec(container(name, {"nvidia.com/gpu": 1}))}
    content = {**more, "template": template}
    if api == "apps/v1":
        content["selector"] = {"matchLabels": labels}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": content}


def test_pods_of_every_kind_of_workload_are_adopted(client: Client, namespace: str) -> None:
    adopt_from(client, namespace, "nvidia")
    job = workload("Job", "batch/v1", parallelism=2, completions=2)
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    every_minute = workload("CronJob", "batch/v1")
    body = every_minute["spec"].pop("template")
    body["spec"] = {**body["spec"], "restartPolicy": "Never"}
    every_minute["spec"] |= {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": body}}}
    every_minute["spec"]["concurrencyPolicy"] = "Forbid"
    client.create(
        namespace,
        workload("Deployment", "apps/v1", replicas=2),
        workload("StatefulSet", "apps/v1", replicas=2, serviceName="none"),
        job,
        every_minute,
    )
    # As if it had run two minutes ago, so that it is due now.
    ran = json.dumps({"status": {"lastScheduleTime": rfc3339(time.time() - 120)}})
    patch = ("patch", "cronjob", "cronjob", "--subresource=status", "--type=merge", "--patch", ran)
    client.kubectl(*patch, f"--namespace={namespace}")
    try:
        eventually("every pod exists", lambda: len(client.list("pods", namespace)) == 7)
        client.wait_until_ready(namespace)
        cards = {"deployment": 2, "statefulset": 2, "job": 2, "cronjob": 1}
        assert got(client, namespace) == {kind: [["gpu"]] * count for kind, count in cards.items()}
        assert len(devices_of(client, namespace)) == 7
        templates = client.kubectl("get", "resourceclaimtemplates", "-o", "name", f"--namespace={namespace}")
        assert templates.split() == ["resourceclaimtemplate.resource.k8s.io/lode-adopt.nvidia.n1"], "one for all"
    finally:
        client.kubectl("delete", "cronjobs", "--all", f"--namespace={namespace}")


def test_nothing_is_left_of_what_nobody_uses(client: Client, namespace: str) -> None:
    adopt_from(client, namespace, "hami")
    client.create(namespace, *OWN["hami"][0])
    client.wait_until_ready(namespace)
    client.delete(namespace, "pods")

    def templates() -> str:
        return client.kubectl("get", "resourceclaimtemplates", "-o", "name", f"--namespace={namespace}").strip()

    eventually_none("the templates are gone", templates)
