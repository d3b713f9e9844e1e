"""Every decision is counted under a label value that docs/operating.md explains."""

from pathlib import Path

from controller.loop.metrics import DecisionOutcome
from controller.reconcile import Reason
from tests.unit.controller.loop.world import World

DOCUMENT = Path(__file__).parents[4] / "docs" / "operating.md"


def counted(world: World) -> set[str]:
    (family,) = [family for family in world.metrics.registry.collect() if family.name == "lode_controller_decisions"]
    return {sample.labels["outcome"] for sample in family.samples}


def test_outcomes_and_reasons_are_the_label_values() -> None:
    world = World(cards=1)
    for name in "ab":
        world.add_claim(name)
        world.add_pod(f"pod-{name}", name)
    world.settle(1)
    assert counted(world) >= {DecisionOutcome.POD_PLACED, Reason.UNALLOCATABLE}
    assert counted(world) <= {*DecisionOutcome, *Reason}


def test_every_outcome_is_documented() -> None:
    text = DOCUMENT.read_text()
    assert not [outcome for outcome in DecisionOutcome if f"`{outcome}`" not in text]
