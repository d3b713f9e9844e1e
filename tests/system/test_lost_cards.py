"""The checks of lost and broken cards: they pass while pods wait for one, and find who tells or wakes nobody."""

import pytest

from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS
from kubeletplugin.publish.publisher import HEALTH_SECONDS
from simulation.invariants import Violation
from tests.system.card_incidents import RECOVERED_SECONDS, check_lost_cards
from tests.system.objects import REQUESTS, claim, pod
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
    monkeypatch.setattr("controller.loop.claimsync.sick_devices", lambda state, key: None)
    with pytest.raises(Violation, match="pod default/next is not told that its card is lost"):
        check_lost_cards(scenario.cluster)


def test_a_pod_is_found_to_be_told_among_more_events_than_a_page_has() -> None:
    scenario = a_pod_gets_the_lost_card()
    about = {"kind": "Pod", "namespace": "default", "name": "gone", "uid": "gone"}
    for number in range(501):
        metadata = {"name": f"a-{number}", "namespace": "default"}
        event = {"metadata": metadata, "involvedObject": about, "reason": "Unallocatable", "message": "", "count": 1}
        scenario.cluster.user.create(EVENTS, event)
    check_lost_cards(scenario.cluster)


def a_card_fails_between_two_pods_of_a_claim() -> Scenario:
    """The pod ``first`` runs with the claim ``serve`` on a card that fails then; the pod ``next`` shares the claim."""
    scenario = Scenario(count=1)
    user = scenario.cluster.user
    user.create(RESOURCE_CLAIMS, claim("serve", REQUESTS["gpu-1"]))
    user.create(PODS, pod("first", claim_name="serve"))
    scenario.settle()
    scenario.cluster.hardware["n1"].faults["gpu-0"] = "Xid 79"
    scenario.cluster.idle(2 * HEALTH_SECONDS)
    user.create(PODS, pod("next", claim_name="serve"))
    scenario.settle()
    assert scenario.running("first")
    assert "gpu-0 has the taint lode.dev/unhealthy:NoSchedule" in scenario.why_pending("next")
    return scenario


def test_a_pod_waits_while_others_use_its_claim_on_a_broken_card_until_the_card_works() -> None:
    scenario = a_card_fails_between_two_pods_of_a_claim()
    scenario.cluster.hardware["n1"].faults.clear()
    scenario.cluster.idle(RECOVERED_SECONDS)
    scenario.settle()
    assert scenario.running("first", "next")


def test_a_controller_that_wakes_nobody_when_the_card_works_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = a_card_fails_between_two_pods_of_a_claim()
    monkeypatch.setattr("controller.state.handlers._note_gated_users", lambda indexes, claims, changes: None)
    scenario.cluster.hardware["n1"].faults.clear()
    scenario.cluster.idle(RECOVERED_SECONDS)
    with pytest.raises(Violation, match=r"pods were not woken, though they could run: .*default/next"):
        scenario.settle()
