"""An allocation that nobody uses is cleared, and no other."""

from controller.reconcile import decide_claim
from controller.reconcile.claims import ORPHAN_SECONDS
from controller.reconcile.decisions import FreeClaim, Idle, Wait
from driver.kube.api import PODS
from tests.unit.controller.filled_state import NOW, FilledState, pod

LONG_AGO = NOW - 10 * ORPHAN_SECONDS


def test_a_claim_that_its_pod_may_still_use_is_kept() -> None:
    scene = FilledState()
    scene.pod("a", "x")
    scene.claim("x", at="n1/gpu-0", owner="a")
    assert isinstance(decide_claim(scene.state, "default/x", NOW, LONG_AGO), Idle)


def test_a_claim_of_a_pod_that_is_gone_is_cleared_although_another_pod_has_its_name() -> None:
    scene = FilledState()
    scene.claim("x", at="n1/gpu-0", owner="a")
    namesake = pod("a", "x")
    namesake["metadata"]["uid"] = "uid-of-another"
    scene.put(PODS, namesake)
    assert isinstance(decide_claim(scene.state, "default/x", NOW, None), Wait)
    assert isinstance(decide_claim(scene.state, "default/x", NOW, LONG_AGO), FreeClaim)
