"""Pods that were written for MindCluster have the annotation with their cards before they lose the gate."""

from itertools import count

import pytest

from driver.kube.api import PODS, RESOURCE_SLICES
from tests.unit.controller.loop.world import Killed, expect_kill
from tests.unit.controller.templates.test_templates_on_demand import GPU, WithTemplates

ADOPTED = "lode-adopt.ascend.h910n2"
KEY = "huawei.com/Ascend910"


@pytest.fixture
def world() -> WithTemplates:
    """A node with two GPUs, and one with two NPUs."""
    world = WithTemplates(cards=2)
    world.add_class("npu.lode.dev", 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "npu"')
    world.add_node("n2", 0)
    pool = {"name": "n2/lode.dev", "generation": 2, "resourceSliceCount": 1}
    own = {name: {"string": value} for name, value in {"kind": "npu", "type": "910B", "model": "Ascend910B"}.items()}
    devices = [{"name": f"npu-{card}", "attributes": own} for card in range(2)]
    spec = {"driver": "lode.dev", "nodeName": "n2", "pool": pool, "devices": devices}
    world.api.create(RESOURCE_SLICES, {"metadata": {"name": "n2-npus"}, "spec": spec})
    return world


def annotations(world: WithTemplates, pod: str) -> dict[str, str]:
    return dict(world.pod(pod)["metadata"].get("annotations") or {})


def test_the_annotation_names_the_cards_before_the_gate_is_gone(world: WithTemplates) -> None:
    world.add("p", ADOPTED)
    seen = []

    def look(what: str, _: object) -> None:
        if what == "patch pods":
            seen.append((annotations(world, "p"), world.runs("p")))

    world.meddler.after = look
    world.settle(5)
    assert world.runs("p")
    named = {KEY: "Ascend910-0,Ascend910-1"}
    assert seen == [(named, False), (named, True)]


def test_what_a_user_has_written_there_is_not_read(world: WithTemplates) -> None:
    world.add("p", ADOPTED)
    patch = {"metadata": {"annotations": {KEY: "Ascend910-7", "other": "kept"}}}
    world.api.patch(PODS, "p", patch, namespace="default")
    world.settle(5)
    assert annotations(world, "p") == {KEY: "Ascend910-0,Ascend910-1", "other": "kept"}


def test_other_pods_get_no_annotation_and_cost_no_write(world: WithTemplates) -> None:
    world.add("p", GPU)
    world.settle(5)
    assert world.runs("p")
    assert annotations(world, "p") == {}
    assert world.meddler.calls.count("patch pods") == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 9))
def test_killed_at_any_call_no_pod_runs_without_it(number: int, moment: str, world: WithTemplates) -> None:
    calls = count(1)

    def meddle(what: str, _: object) -> None:
        if next(calls) == number:
            raise Killed

    world.add("p", ADOPTED)
    setattr(world.meddler, moment, meddle)
    with expect_kill():
        world.settle(5)
    assert not world.runs("p") or KEY in annotations(world, "p")
    world.start()
    world.settle(5)
    assert world.runs("p")
    assert annotations(world, "p") == {KEY: "Ascend910-0,Ascend910-1"}
