"""What is wrong when pods put off a gang that nodes are held back for."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller.state import State
from controller.waiting import HeldDomain
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus, Target
from driver.kube.api import RESOURCE_CLAIMS
from driver.model import Allocation
from driver.wire.nodes import only_node
from simulation.hold_checks import HoldChecks
from tests.unit.controller.loop.test_gangs_that_wait import LIMIT, Busy

NODE = "a1"


class Watched:
    """Both nodes are held back for the gang ``train``, which can start in ``LIMIT`` seconds."""

    def __init__(self) -> None:
        self.world = Busy(LIMIT, LIMIT, LIMIT, LIMIT)
        self.found: list[str] = []
        (self.held,) = self.world.controller.held_domains
        self.domains: Iterable[HeldDomain] = (self.held,)
        self.checks = HoldChecks(lambda: self, self.world.clock, self.found)

    @property
    def state(self) -> State:
        return self.world.controller.state

    @property
    def held_domains(self) -> Iterable[HeldDomain]:
        return self.domains

    def place(self, pod: str) -> bool:
        """Place the pod on a node that is held back; whether that is right."""
        target = Target(RESOURCE_CLAIMS, f"default/{pod}", f"uid of {pod}")
        step = PatchClaimStatus(target, {}, Allocation((), nodes=only_node(NODE)))
        self.found.clear()
        self.checks.look(WriteSequence(("pod", f"default/{pod}"), (step,)))
        return not self.found


@pytest.mark.parametrize(("limit", "is_right"), [(60, True), (LIMIT, False), (None, False)])
def test_a_later_pod_has_to_end_before_the_gang_can_start(limit: int | None, is_right: bool) -> None:
    watched = Watched()
    watched.world.single("late", limit)
    watched.world.settle(1)
    assert watched.place("late") == is_right


def test_the_members_of_the_gang_may_use_their_nodes() -> None:
    watched = Watched()
    assert all(watched.place(pod) for pod in watched.world.gang)


def test_without_a_prediction_nobody_uses_the_nodes() -> None:
    watched = Watched()
    watched.domains = (replace(watched.held, starts=None),)
    watched.world.single("late", 60)
    watched.world.settle(1)
    assert not watched.place("late")


@pytest.mark.parametrize(("later", "is_right"), [(-5, True), (0, True), (5, False), (None, False)])
def test_a_prediction_is_not_put_off_before_it_has_passed(later: float | None, is_right: bool) -> None:
    watched = Watched()
    assert watched.held.starts is not None
    other = replace(watched.held, starts=None if later is None else watched.held.starts + later)
    watched.checks.follow()
    watched.domains = (other,)
    watched.checks.follow()
    assert (not watched.found) == is_right
    watched.found.clear()
    watched.domains = (watched.held,)
    watched.checks.follow()
    watched.world.clock.advance(2 * LIMIT)
    watched.domains = (other,)
    watched.found.clear()
    watched.checks.follow()
    assert not watched.found
