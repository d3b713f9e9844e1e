"""Whatever the API server answers to controllers' writes: what is never written keeps devices from nobody for long."""

import pytest

import controller.loop.podsync
import controller.worker.writes_in_flight
from driver.kube.api import PODS
from simulation.invariants import Violation
from tests.simulation.answers import Answer, Trouble
from tests.simulation.programs import SimulatedController
from tests.system.objects import NAMESPACE
from tests.system.scenario import Scenario

STATUS_OF_CLAIMS = "patch resourceclaims/status"
HOUR = 3600.0


def scenario_in_trouble(answer: Answer) -> Scenario:
    """One card, and a pod whose claim cannot be written."""
    scenario = Scenario(profile="t4x2", count=1)
    trouble = Trouble(STATUS_OF_CLAIMS, answer, about=lambda name: name.startswith("evil"))
    scenario.cluster.answers.troubles.append(trouble)
    scenario.create("evil", "gpu-1")
    scenario.cluster.advance(5)
    return scenario


@pytest.mark.parametrize("answer", [500, 503, "lost", "late", 403])
def test_others_get_the_card_and_the_pod_when_the_trouble_is_over(answer: Answer) -> None:
    scenario = scenario_in_trouble(answer)
    scenario.create("good", "gpu-1")
    scenario.cluster.advance(HOUR)
    assert scenario.running("good") or answer == "late"
    scenario.delete("good")
    scenario.cluster.answers.troubles.clear()
    scenario.settle()
    assert scenario.running("evil")


def test_what_a_deleted_pod_was_to_get_is_free() -> None:
    scenario = scenario_in_trouble(503)
    scenario.cluster.user.delete(PODS, "evil", NAMESPACE)
    scenario.create("good", "gpu-1")
    scenario.cluster.advance(60)
    assert scenario.running("good")


def test_a_write_that_is_tried_for_ever_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller.loop.podsync, "MOST_TRIES", 10**6)
    monkeypatch.setattr(controller.worker.writes_in_flight, "LONGEST_TRIED_SECONDS", HOUR)
    with pytest.raises(Violation, match=r"has had devices for .* and does not say so"):
        scenario_in_trouble(503).cluster.advance(HOUR)


def test_a_leader_that_stands_still_keeps_devices_from_nobody() -> None:
    scenario = Scenario(profile="t4x2", count=1, controllers=2)
    scenario.cluster.advance(60)
    leader = next(slot for slot in scenario.cluster.slots.values() if getattr(slot.program, "leads", False))
    trouble = Trouble(STATUS_OF_CLAIMS, 503, about=lambda name: name.startswith("evil"))
    scenario.cluster.answers.troubles.append(trouble)
    scenario.create("evil", "gpu-1")
    scenario.cluster.advance(5)
    assert isinstance(leader.program, SimulatedController)
    assert leader.program.controller.state.claims.promised
    scenario.cluster.slots.stall(leader.name, HOUR)
    scenario.cluster.user.delete(PODS, "evil", NAMESPACE)
    scenario.create("good", "gpu-1")
    scenario.cluster.advance(HOUR - 60)
    assert scenario.running("good")
    scenario.settle()
    assert not leader.program.controller.state.claims.promised
