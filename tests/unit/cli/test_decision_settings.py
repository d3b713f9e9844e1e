"""Settings of the controller that decide whether a node takes pods are those of `lode simulate` and `lode explain`."""

from pathlib import Path

import pytest

from cli.decisions.settings import settings_of_cluster
from cli.objects.checks import InputObject
from cli.objects.documents import LIVE
from cli.shipped import device_classes
from controller.state import DecisionSettings
from driver.kube.api import NODES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Api, ApiCall, Forbidden, Object
from tests.unit.cli.cluster import claim, node, pod, simulation, slices

V1 = "resource.k8s.io/v1"
SETTINGS = "controller: {closingNodeConditions: [KernelDeadlock]}"


def judged(condition: str) -> Object:
    found = node("n")
    found["status"]["conditions"].append({"type": condition, "status": "True"})
    return found


@pytest.mark.parametrize(("condition", "status"), [("KernelDeadlock", 1), ("ReadonlyFilesystem", 0)])
def test_a_condition_that_the_settings_name_closes_a_node(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, condition: str, status: int
) -> None:
    settings = tmp_path / "settings.txt"
    settings.write_text(SETTINGS)
    objects = [judged(condition), *slices("n", "t4x2"), claim("c"), pod("p", "c")]
    answer = simulation(capsys, tmp_path, *objects, options=("--settings", str(settings), "-o", "json"))
    assert answer.status == status
    if status:
        assert "the node has the condition KernelDeadlock (controller.closingNodeConditions)" in answer.reason("p")[1]
    assert simulation(capsys, tmp_path, *objects).status == 0, "without the setting it is no reason"


class _NoRights(Api):
    def __init__(self) -> None:
        self.asked = 0

    def call(self, call: ApiCall) -> object:
        self.asked += 1
        raise Forbidden("no", status=403)


@pytest.mark.parametrize(("condition", "asked"), [("KernelDeadlock", True), ("DiskPressure", False)])
def test_the_controller_is_asked_for_its_settings_only_if_a_condition_of_others_is_true(
    condition: str, asked: bool
) -> None:
    api = _NoRights()
    found, notes = settings_of_cluster(api, [InputObject(NODES, judged(condition), LIVE, True)])
    assert found == DecisionSettings()
    assert bool(api.asked) == asked
    assert [("which conditions close nodes, is not known" in note) for note in notes] == [True] * asked


def test_a_damaged_node_asks_for_nothing() -> None:
    broken = {"metadata": {"name": "n"}, "status": {"conditions": "x"}}
    assert settings_of_cluster(_NoRights(), [InputObject(NODES, broken, LIVE, True)]) == (DecisionSettings(), ())


def asks(*classes: str) -> Object:
    requests = [{"name": f"r{at}", "exactly": {"deviceClassName": name}} for at, name in enumerate(classes)]
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": requests}}}


@pytest.mark.parametrize("damaged", [{}, {"spec": []}, {"spec": {"devices": {"requests": [1]}}}])
def test_a_claim_asks_for_them_if_it_is_for_devices_of_two_drivers(damaged: Object) -> None:
    mixed, one = asks("gpu.lode.dev", "rdma"), asks("gpu.lode.dev", "mig.lode.dev")
    template = {"metadata": mixed["metadata"], "spec": {"spec": mixed["spec"]}}
    asked = []
    for resource, obj in (
        (RESOURCE_CLAIMS, mixed),
        (RESOURCE_CLAIM_TEMPLATES, template),
        (RESOURCE_CLAIMS, one),
        (RESOURCE_CLAIMS, damaged),
    ):
        api = _NoRights()
        _, notes = settings_of_cluster(api, [InputObject(resource, obj, LIVE, True)])
        asked.append(bool(api.asked) and "which drivers are allocated together" in notes[0])
    assert asked == [True, True, False, False]


def test_a_mixed_claim_is_simulated_as_the_settings_say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = tmp_path / "settings.txt"
    settings.write_text("controller: {alsoAllocates: [dra.net]}")
    nics = {"driver": "dra.net", "nodeName": "n", "devices": [{"name": "nic-0"}]}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    rdma = {"spec": {"selectors": [{"cel": {"expression": 'device.driver == "dra.net"'}}]}}
    objects = [
        node("n"),
        *slices("n", "t4x2"),
        {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": "nics"}, "spec": {**nics, "pool": pool}},
        {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "rdma"}, **rdma},
        *({"apiVersion": V1, **raw} for raw in device_classes()),
        {"apiVersion": V1, "kind": "ResourceClaim", **asks("gpu.lode.dev", "rdma")},
        pod("p", "c"),
    ]
    answer = simulation(capsys, tmp_path, *objects, options=("--settings", str(settings), "-o", "json"))
    assert answer.status == 0
    assert simulation(capsys, tmp_path, *objects, options=("-o", "json")).reason("p")[0] == "MixedClaim"
