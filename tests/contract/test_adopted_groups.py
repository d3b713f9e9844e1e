"""Pods of Volcano Jobs and AscendJobs beside the whole controller: they are adopted, and start together.

Their controllers are not there, because no registry of Go modules has them. The pods are those that the controllers
make (tests/data/gangs), with the resources and the scheduler of the other system.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.kube.api import PODS, VOLCANO_POD_GROUPS, Api, NotFound, Object, Resource
from tests.adoption_cases import claims_of
from tests.contract.adopted import adopt, adopting_namespace, bound, devices_of, told
from tests.contract.conftest import eventually
from tests.contract.running import installed, running_controller

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class MadeBy:
    """What a controller of another project makes, in a namespace that adopts pods.

    Attributes:
        owner: the kind of object that it makes pods for.
        recorded: the file with its pods.
        limits: what each of them asks for.
        template: what they ask for after adoption.
    """

    owner: Resource
    recorded: str
    source: str
    limits: Mapping[str, int]
    template: str

    def create(self, api: Api, namespace: str) -> list[Object]:
        """Create an owner and the group of its pods; returns the pods, as the controller makes them for the owner."""
        text = (DATA / "gangs" / self.recorded).read_text()
        (by,) = yaml.safe_load(text)["objects"][0]["metadata"]["ownerReferences"]
        owner = created(api, self.owner, {"metadata": {"name": by["name"], "namespace": namespace}, "spec": {}})
        objects = yaml.safe_load(text.replace(by["uid"], owner["metadata"]["uid"]))["objects"]
        group, *pods = (self._made(obj, namespace) for obj in objects)
        created(api, VOLCANO_POD_GROUPS, group)
        return pods

    def _made(self, recorded: Object, namespace: str) -> Object:
        metadata = {**recorded["metadata"], "namespace": namespace}
        for field in ("uid", "creationTimestamp"):
            metadata.pop(field, None)
        if recorded["kind"] != "Pod":
            return {"metadata": metadata, "spec": recorded["spec"], "status": {"phase": "Inqueue"}}
        added = ("resourceClaims", "schedulingGates")
        spec = {key: value for key, value in recorded["spec"].items() if key not in added}
        (container,) = spec["containers"]
        asked = {"limits": dict(self.limits), "requests": {"cpu": "1", **self.limits}}
        return {
            "metadata": metadata,
            "spec": {**spec, "schedulerName": "volcano", "containers": [{**container, "resources": asked}]},
        }


VOLCANO_JOB = MadeBy(
    Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True),
    "volcano.yaml",
    "volcano",
    {"volcano.sh/vgpu-number": 2},
    "lode-adopt.volcano.n2",
)
VOLCANO_JOB_OF_GPUS = replace(
    VOLCANO_JOB, source="nvidia", limits={"nvidia.com/gpu": 2}, template="lode-adopt.nvidia.n2"
)
ASCEND_JOB = MadeBy(
    Resource("mindxdl.gitee.com", "v1", "ascendjobs", "AscendJob", namespaced=True),
    "ascendjob.yaml",
    "ascend",
    {"huawei.com/Ascend910": 2},
    "lode-adopt.ascend.h910n2",
)


@pytest.fixture(scope="module")
def admin() -> Iterator[Api]:
    """The administrator of a cluster with eight GPUs of one leaf and eight NPUs, where pods are adopted."""
    settings = {"volcanoTiers": {"1": {"attribute": "lode.dev/ibLeaf"}}}
    cards = {"vendor": "nvidia", "ibLeaf": "l1"}
    npus = ("npus-1", "npus-2")
    slices = [npus_of(node) for node in npus]
    with installed({"n1": {}, "n2": {}}, settings, cards, slices=slices) as (plane, api), running_controller(plane):
        for node in npus:
            plane.add_node(node)
        for kind in ("volcano-job", "ascendjob"):
            plane.kubectl("apply", "-f", DATA / "crds" / f"{kind}.yaml")
        for source in ("nvidia", "volcano", "ascend"):
            adopt(plane, api, source)
        yield api


def npus_of(node: str) -> Object:
    own = {name: {"string": value} for name, value in {"kind": "npu", "type": "910B", "model": "Ascend910B"}.items()}
    pool = {"name": f"{node}/lode.dev", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"npu-{card}", "attributes": own} for card in range(4)]
    spec = {"driver": "lode.dev", "pool": pool, "nodeName": node, "devices": devices}
    return {"metadata": {"name": f"{node}-lode"}, "spec": spec}


def created(api: Api, resource: Resource, obj: Object) -> Object:
    """The stored object; its kind may be new to the API server."""

    def create() -> Any:
        try:
            return api.create(resource, obj)
        except NotFound:
            return None

    return dict(eventually(create, 60))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(VOLCANO_JOB, id="Volcano Job"),
        pytest.param(VOLCANO_JOB_OF_GPUS, id="Volcano Job of NVIDIA's device plugin"),
        pytest.param(ASCEND_JOB, id="AscendJob"),
    ],
)
def test_pods_of_a_job_with_a_pod_group_are_adopted_and_start_together(admin: Api, unique: str, made: MadeBy) -> None:
    with adopting_namespace(admin, unique, made.source, [made.owner]) as namespace:
        *first, last = written = made.create(admin, namespace)
        for pod in first:
            admin.create(PODS, pod)
        gang = f"gang {namespace}/{last['metadata']['annotations']['scheduling.k8s.io/group-name']}: "
        eventually(lambda: [text.startswith(gang) for text in told(admin, namespace)] == [True, True], 60)
        admin.create(PODS, last)
        pods = eventually(lambda: bound(admin, namespace, 3), 60)
        assert len({device for pod in pods for device in devices_of(admin, pod)}) == 6
        assert {name for pod in pods for name in claims_of(pod).values()} == {made.template}
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
        for pod, before in zip(sorted(pods, key=name_of), sorted(written, key=name_of), strict=True):
            assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == [made.owner.kind]
            assert before["metadata"]["labels"] == pod["metadata"]["labels"]
            assert before["metadata"]["annotations"].items() <= pod["metadata"]["annotations"].items()
            (container,) = pod["spec"]["containers"]
            assert container.get("env") == before["spec"]["containers"][0].get("env")


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def test_containers_of_an_ascend_job_learn_their_npus_from_the_annotation_of_the_resource(
    admin: Api, unique: str
) -> None:
    """The operator names the annotation in the variable ASCEND_VISIBLE_DEVICES."""
    key = "huawei.com/Ascend910"
    with adopting_namespace(admin, unique, "ascend", [ASCEND_JOB.owner]) as namespace:
        for pod in ASCEND_JOB.create(admin, namespace):
            admin.create(PODS, pod)
        for pod in eventually(lambda: bound(admin, namespace, 3), 60):
            cards = sorted(device.removeprefix("npu-") for _, device in devices_of(admin, pod))
            assert pod["metadata"]["annotations"][key] == ",".join(f"Ascend910-{card}" for card in cards)
            variables = pod["spec"]["containers"][0]["env"]
            visible = next(one for one in variables if one["name"] == "ASCEND_VISIBLE_DEVICES")
            assert visible["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{key}']"
