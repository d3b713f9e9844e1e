"""Claims that hold one device: the youngest is known, and gives it back unless a bound pod uses it."""

from typing import Any

import pytest

from controller.reconcile import PlacementHistory, decide
from controller.reconcile.claims import SETTLING_SECONDS, double_use
from controller.reconcile.history import RELEASE_SECONDS
from driver.clock import rfc3339
from driver.kube.api import RESOURCE_CLAIMS
from tests.unit.controller.filled_state import GATE, NOW, FilledState, claim
from tests.unit.controller.reconcile.inwords import about

LATER = NOW + SETTLING_SECONDS


def doubled(gates: tuple[str, ...] = (), by: tuple[str, ...] = ("p",), **pod: Any) -> FilledState:
    """Claim ``a`` of a running pod, and ``b`` of the pod ``p``, hold the same device; ``b`` has had it since NOW."""
    scene = FilledState()
    scene.claim("a", at="n1/gpu-0", by=("q",), stamp=rfc3339(NOW - 100))
    scene.claim("b", at="n1/gpu-0", by=by, stamp=rfc3339(NOW))
    scene.pod("q", "a", gates=(), nodeName="n1")
    scene.pod("p", "b", gates=gates, condition="True", **pod)
    return scene


def test_the_youngest_claim_is_the_one_that_was_allocated_last() -> None:
    scene = doubled()
    assert double_use(scene.state, "default/a") is None
    found = double_use(scene.state, "default/b")
    assert found is not None
    assert (found.claim, found.rivals, found.settled_at) == ("default/b", ("default/a",), LATER)
    assert found.message("default/a").startswith("the device of lode.dev/n1/lode.dev/gpu-0 is also held by")
    assert "ResourceClaims: default/b;" in found.message("default/a")


def test_an_allocation_without_a_time_stamp_is_another_programs_and_the_youngest() -> None:
    scene = doubled()
    other = claim("c", at="n1/gpu-0", by=("x",))
    del other["status"]["allocation"]["allocationTimestamp"]
    scene.put(RESOURCE_CLAIMS, other)
    assert double_use(scene.state, "default/b") is None
    found = double_use(scene.state, "default/c")
    assert found is not None
    assert found.rivals == ("default/a", "default/b")


def test_claims_of_other_namespaces_are_counted_but_not_named() -> None:
    scene = doubled()
    other = claim("z", at="n1/gpu-0", by=("x",), stamp=rfc3339(NOW + 1))
    other["metadata"]["namespace"] = "other"
    scene.put(RESOURCE_CLAIMS, other)
    found = double_use(scene.state, "other/z")
    assert found is not None
    assert "ResourceClaims: 2 claims in other namespaces;" in found.message("other/z")
    assert "ResourceClaims: default/b, a claim in another namespace;" in found.message("default/a")


@pytest.mark.parametrize(
    ("scene", "now", "history", "expected"),
    [
        (doubled(), LATER - 1, PlacementHistory(), "wait DoubleUse without report"),
        (doubled(gates=(GATE,)), LATER, PlacementHistory(), "take back n1 b"),
        (doubled(), LATER, PlacementHistory(), "release n1 b"),
        (doubled(by=()), LATER, PlacementHistory(released=LATER), "wait DoubleUse without report"),
        (doubled(by=()), LATER + RELEASE_SECONDS, PlacementHistory(released=LATER), "take back n1 b"),
        # kube-scheduler has reserved it again meanwhile.
        (doubled(), LATER + RELEASE_SECONDS, PlacementHistory(released=LATER), "release n1 b"),
        (doubled(nodeName="n1"), LATER, PlacementHistory(), "idle"),
        (doubled(by=("p", "x")), LATER, PlacementHistory(), "idle"),
    ],
)
def test_what_the_pod_of_the_youngest_claim_does(
    scene: FilledState, now: float, history: PlacementHistory, expected: str
) -> None:
    assert about(decide(scene.state, "default/p", now, history)) == expected


def test_the_pod_of_the_older_claim_goes_on() -> None:
    assert about(decide(doubled().state, "default/q", LATER)) == "idle"
