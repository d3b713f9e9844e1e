"""Settings of the controller that decide whether a node takes pods are those of `lode simulate` and `lode explain`."""

from pathlib import Path

import pytest

from cli.decisions.settings import settings_of_cluster
from cli.objects.checks import InputObject
from cli.objects.documents import LIVE
from controller.state import DecisionSettings
from driver.kube.api import NODES, Api, ApiCall, Forbidden, Object
from tests.unit.cli.cluster import claim, node, pod, simulation, slices

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
