"""Every decision is counted under a label value that docs/metrics.md explains."""

from pathlib import Path

from controller.reconcile.decisions import Reason
from controller.worker.metrics import ControllerMetrics, DecisionOutcome
from driver.observe import Metrics
from tests.unit.controller.loop.world import ControllerWorld

DOCUMENT = Path(__file__).parents[4] / "docs" / "metrics.md"


def counted(world: ControllerWorld) -> set[str]:
    (family,) = [family for family in world.metrics.registry.collect() if family.name == "lode_controller_decisions"]
    return {sample.labels["outcome"] for sample in family.samples}


def test_outcomes_and_reasons_are_the_label_values() -> None:
    world = ControllerWorld(cards=1)
    for name in "ab":
        world.add_claim(name)
        world.add_pod(f"pod-{name}", name)
    world.settle(1)
    assert counted(world) >= {DecisionOutcome.POD_PLACED, Reason.UNALLOCATABLE}
    assert counted(world) <= {*DecisionOutcome, *Reason}


def test_every_outcome_is_documented() -> None:
    text = DOCUMENT.read_text()
    assert not [outcome for outcome in DecisionOutcome if f"`{outcome}`" not in text]


def test_the_gauges_say_how_things_are_when_they_are_read() -> None:
    world = ControllerWorld(cards=1)
    names = ("queue_depth", "waiting_pods", "held_nodes")

    def gauges() -> list[float | None]:
        return [world.metrics.registry.get_sample_value(f"lode_controller_{name}") for name in names]

    add_pod(world, "a", 0)
    world.settle()
    assert gauges() == [0, 0, 0]
    add_pod(world, "b", 1)
    add_pod(world, "c", 1)
    world.observe()
    assert gauges() == [4, 0, 0], "two pods and their claims, before anything is decided"
    world.settle(world.settings.controller.hold.after_seconds)
    assert gauges()[1:] == [2, 1], "a node is held back for the first"
    assert gauges()[0] == 0, "what waits for a change or a later time is not due"
    world.controller.follow()
    assert gauges() == [0, 0, 0], "a standby decides nothing"


def test_kinds_of_which_nothing_is_allocated_any_more_count_0() -> None:
    registry = Metrics()
    metrics = ControllerMetrics(registry)
    for by_kind in ({"gpu": 2}, {"mig": 1}, {}):
        metrics.allocated(by_kind)
        (family,) = [family for family in registry.registry.collect() if family.name == "lode_allocated_devices"]
        assert {it.labels["kind"]: it.value for it in family.samples if it.value} == by_kind


def add_pod(world: ControllerWorld, name: str, priority: int) -> None:
    world.add_claim(f"claim-{name}")
    world.add_pod(name, f"claim-{name}", priority=priority)
