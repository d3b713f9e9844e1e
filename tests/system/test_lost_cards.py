"""The check of lost cards: it passes while a pod waits for one of them, and finds a controller that tells nobody."""

import pytest

from driver.kube.api import EVENTS, PODS
from simulation.invariants import Violation
from tests.system.card_incidents import check_lost_cards
from tests.system.objects import pod
from tests.system.scenario import Scenario

SECONDS = 100
"""For which a pod runs."""


def a_pod_gets_the_lost_card() -> Scenario:
    """The only card is lost soon; then its pod ends, and one whose claim tolerates every taint waits for a card."""
    scenario = Scenario(count=1)
    cluster = scenario.cluster
    cluster.user.create(PODS, pod("first", template_name="gpu-1", deadline=SECONDS))
    cluster.advance(SECONDS / 2)
    scenario.create("next", "gpu-tolerant")
    cluster.advance(SECONDS / 2 - 1)
    assert scenario.running("first")
    assert not scenario.devices("next")
    return scenario


def test_a_pod_that_gets_a_lost_card_is_told_and_starts_when_the_card_is_found_again() -> None:
    scenario = a_pod_gets_the_lost_card()
    check_lost_cards(scenario.cluster)
    assert scenario.running("next")
    events = scenario.cluster.user.list(EVENTS).items
    (refused,) = {event["message"] for event in events if event["reason"] == "FailedPrepareDynamicResources"}
    assert "has fallen off the bus; its pod starts here once the card works again. Delete the pod to have it" in refused
    told = {event["involvedObject"]["name"] for event in events if event["reason"] == "DeviceUnhealthy"}
    assert told == {"first", "next"}


def test_a_controller_that_tells_no_pod_of_its_lost_card_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = a_pod_gets_the_lost_card()
    monkeypatch.setattr("controller.loop.claimsync.unhealthy_use", lambda state, key: None)
    with pytest.raises(Violation, match="pod default/next is not told that its card is lost"):
        check_lost_cards(scenario.cluster)
