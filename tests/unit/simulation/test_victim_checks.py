"""The checks of evictions find one that is in vain, of a priority higher than needed, or of a pod that does not free
its devices."""

from typing import Any

import pytest

from controller.state.kept_places import KeptPlace
from controller.writing import NotEvicted, Obstacle, WriteResult, WriteSequence
from controller.writing.steps import EvictPod, Target
from driver.kube.api import PODS, RESOURCE_CLAIMS, Forbidden
from driver.settings import PreemptionSettings
from tests.simulation.victim_checks import VictimChecks
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld

NEVER = "its preemptionPolicy is Never"
"""Found of each eviction here, because nobody is evicted by the controller itself."""


class JudgedWorld(PreemptingWorld):
    """Two pods have the cards of a node, and a place with one card is kept there for a third pod."""

    def __init__(self, **mid: Any):
        super().__init__(nodes=1, cards=2)
        self.running("low")
        self.running("mid", 5, **mid)
        self.wanting("important", HIGH, preemptionPolicy="Never")
        self.settle()
        self.found: list[str] = []
        self.checks = VictimChecks(lambda: self.controller, self.clock, self.found, PreemptionSettings())

    def judge(self, victim: str) -> list[str]:
        """What is found wrong if this pod is evicted for the third one, without what is so of each."""
        state = self.controller.state
        pod, claim = state.pods["default/important"], state.claims["default/important"].claim
        held = state.claims[f"default/{victim}"].claim.allocation
        assert held is not None
        state.keep_place(KeptPlace(pod.key, pod.uid, "n1", HIGH, ((claim, held),)))
        self.checks.look(WriteSequence(("pod", pod.key), (EvictPod(self.target(victim)),)))
        prefix = f"default/{victim} is to be evicted for {pod.key}: "
        said = [one.removeprefix(prefix) for one in self.found]
        assert said[0] == NEVER
        return said[1:]

    def target(self, pod: str) -> Target:
        """The pod as it is evicted."""
        return Target(PODS, f"default/{pod}", self.controller.state.pods[f"default/{pod}"].uid)


LOWER = "node n1 takes it when ['default/low'] have ended, whose priority is lower"


def test_nothing_is_wrong_with_the_victim_of_the_lowest_priority() -> None:
    assert JudgedWorld().judge("low") == []


def test_one_of_a_higher_priority_than_needed_is_found() -> None:
    assert JudgedWorld().judge("mid") == [LOWER]


def test_one_in_place_of_a_pod_that_nobody_lets_go_is_right() -> None:
    world = JudgedWorld()
    refused = NotEvicted(world.target("low"), Obstacle.OTHER, Forbidden("no", status=403, reason="Forbidden"))
    world.checks.hear(WriteResult(WriteSequence(("pod", "default/important"), ()), (), error=refused))
    assert world.judge("mid") == []


def test_one_that_goes_although_another_one_is_ending_is_found() -> None:
    world = JudgedWorld()
    world.api.delete(PODS, "low", "default")
    world.settle()
    assert world.judge("mid") == ["node n1 takes it when those have ended that are ending"]


def test_what_is_left_of_a_decision_is_not_judged_again() -> None:
    world = JudgedWorld()
    world.judge("mid")
    before = list(world.found)
    world.checks.look(WriteSequence(("pod", "default/important"), (EvictPod(world.target("mid")),)))
    assert world.found == before


@pytest.mark.parametrize(
    ("mid", "expected"),
    [
        ({"annotations": {"kubernetes.io/config.mirror": "checksum"}}, "it is static, and does not end"),
        ({"terminationGracePeriodSeconds": 1800}, "it may take 1800 s to end"),
    ],
)
def test_one_that_does_not_end_is_found(mid: dict[str, Any], expected: str) -> None:
    assert JudgedWorld(**mid).judge("mid") == [expected, LOWER]


def test_one_that_does_not_free_its_claim_is_found() -> None:
    world = JudgedWorld()
    (users,) = (one["status"]["reservedFor"] for one in [world.api.get(RESOURCE_CLAIMS, "mid", "default")])
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "uid-train"}
    status = {"status": {"reservedFor": [*users, group]}}
    world.api.patch(RESOURCE_CLAIMS, "mid", status, namespace="default", subresource="status")
    world.settle()
    assert world.judge("mid") == ["all of its claims last as long as a PodGroup", LOWER]
