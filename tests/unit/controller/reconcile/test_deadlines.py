"""When pods have ended at the latest, and when a gang can start because of that."""

from typing import Any

import pytest

from controller.reconcile.decisions import GangDecision
from controller.reconcile.prospects import START_SECONDS, latest_end, latest_end_of_new, predicted_start
from driver.clock import rfc3339
from driver.kube.api import PODS
from tests.unit.controller.filled_state import NOW, pod
from tests.unit.controller.reconcile.fabrics import Fabrics

GRACE = 30


def running(scene: Fabrics, name: str, card: str, limit: int | None, started: float | None = NOW) -> None:
    """A pod that holds a card; ``limit`` is its activeDeadlineSeconds."""
    spec: dict[str, Any] = {} if limit is None else {"activeDeadlineSeconds": limit}
    obj = pod(name, f"c-{name}", gates=(), nodeName=card.split("/")[0], **spec)
    if started is not None:
        obj["status"]["startTime"] = rfc3339(started)
    scene.claim(f"c-{name}", at=card, by=(name,))
    scene.put(PODS, obj)


@pytest.mark.parametrize(
    ("spec", "started", "end"),
    [
        ({"activeDeadlineSeconds": 60}, NOW, NOW + 60 + GRACE),
        ({"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 0}, NOW - 10, NOW + 50),
        ({"activeDeadlineSeconds": 60}, None, None),
        ({}, NOW, None),
    ],
)
def test_a_pod_has_ended_when_its_deadline_and_its_grace_period_have_passed(
    spec: dict[str, Any], started: float | None, end: float | None
) -> None:
    scene = Fabrics(a=1)
    obj = pod("p", gates=(), nodeName="a1", **spec)
    if started is not None:
        obj["status"]["startTime"] = rfc3339(started)
    scene.put(PODS, obj)
    assert latest_end(scene.state, scene.state.pods["default/p"]) == end


def test_pods_that_are_placed_now_end_when_the_longest_deadline_among_them_has_passed() -> None:
    scene = Fabrics()
    scene.pod("long", activeDeadlineSeconds=100)
    scene.pod("short", activeDeadlineSeconds=10)
    scene.pod("endless")
    pods = scene.state.pods
    both = [pods["default/long"], pods["default/short"]]
    assert latest_end_of_new(both, NOW) == NOW + START_SECONDS + 100 + GRACE
    assert latest_end_of_new([*both, pods["default/endless"]], NOW) is None


LIMITS = (100, 200, 300, 400)


def predict(limits: tuple[int | None, ...], size: int, started: float | None = NOW) -> float | None:
    """Two nodes with two cards each; pods hold as many of them as there are limits. The gang needs ``size`` cards."""
    scene = Fabrics(a=2)
    cards = [f"a{1 + number // 2}/gpu-{number % 2}" for number in range(len(limits))]
    scene.members(size)
    gang = sorted(scene.state.pods)
    for number, (card, limit) in enumerate(zip(cards, limits, strict=True)):
        running(scene, f"x{number}", card, limit, started)

    def decide() -> GangDecision:
        return scene.decide(minimum=size, members=gang)

    return predicted_start(scene.state, ["a1", "a2"], decide)


@pytest.mark.parametrize(
    ("limits", "size", "after"),
    [
        (LIMITS, 4, 400),
        (LIMITS, 2, 200),
        (LIMITS[:3], 2, 100),
        ((100, 200, None), 3, 200),
        ((100, 200, None), 4, None),
        ((None, None, None, None), 1, None),
    ],
)
def test_a_gang_can_start_when_enough_of_those_in_its_way_have_ended(
    limits: tuple[int | None, ...], size: int, after: int | None
) -> None:
    assert predict(limits, size) == (None if after is None else NOW + after + GRACE)


def test_nothing_is_predicted_from_pods_that_have_not_started() -> None:
    assert predict(LIMITS, 2, started=None) is None
