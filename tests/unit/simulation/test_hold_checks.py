"""What is wrong when pods put off a gang that nodes are held back for."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller.state import State
from controller.waiting import Hold
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus, Target
from driver.kube.api import RESOURCE_CLAIMS
from driver.model import Allocation
from driver.settings import HoldSettings
from driver.wire.nodes import only_node
from tests.simulation.hold_checks import HoldChecks
from tests.unit.controller.loop.busy import HOLD_AFTER, LIMIT, Busy

NODE = "a1"
LIMITS = HoldSettings(after_seconds=HOLD_AFTER)


class Watched:
    """Both nodes are held back for the gang ``train``, which can start in ``LIMIT`` seconds."""

    def __init__(self) -> None:
        self.world = Busy(LIMIT, LIMIT, LIMIT, LIMIT)
        self.found: list[str] = []
        (self.held,) = self.world.controller.held_domains
        self.domains: Iterable[Hold] = (self.held,)
        self.held_nodes: Iterable[Hold] = ()
        self.most_held = 2
        self.decides = True
        self.due: float | None = None
        self.checks = HoldChecks(lambda: self, self.world.clock, self.found, LIMITS)

    @property
    def state(self) -> State:
        return self.world.controller.state

    @property
    def held_domains(self) -> Iterable[Hold]:
        return self.domains

    def next_due(self) -> float | None:
        return self.due

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


def test_a_write_that_is_repeated_was_decided_before_the_nodes_were_held_back() -> None:
    watched = Watched()
    watched.world.single("late", None)
    watched.world.settle(1)
    watched.domains = ()
    assert watched.place("late")
    watched.domains = (watched.held,)
    assert watched.place("late")


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


def test_a_change_of_the_nodes_is_noted_and_one_of_the_prediction_is_not() -> None:
    watched = Watched()
    watched.checks.follow()
    first = watched.checks.changed_at
    watched.world.clock.advance(1)
    watched.domains = (replace(watched.held, starts=watched.held.ends),)
    watched.checks.follow()
    assert watched.checks.changed_at == first
    watched.domains = ()
    watched.checks.follow()
    assert watched.checks.changed_at == first + 1
    watched.world.clock.advance(1)
    watched.held_nodes = (Hold.of_pod(replace(watched.held.rank, pod="default/bare"), "a1", watched.held.ends),)
    watched.checks.follow()
    assert watched.checks.changed_at == first + 2, "whoever is held back from a node may be told so"


# Bounds


def test_a_hold_that_ran_out_is_ended_before_anything_else_is_awaited() -> None:
    watched = Watched()
    watched.world.clock.advance(LIMITS.for_seconds + 1)
    watched.due = watched.world.clock.monotonic()
    watched.checks.follow()
    assert not watched.found, "it is about to decide"
    watched.due = None
    watched.checks.follow()
    assert "after" in watched.found[0]


@pytest.mark.parametrize(("pause", "priority", "is_right"), [(0, 0, False), (0, 1, True), (1800, 0, True)])
def test_nodes_stay_open_after_a_hold_that_ran_out(pause: float, priority: int, is_right: bool) -> None:
    watched = Watched()
    watched.checks.follow()
    watched.world.clock.advance(LIMITS.for_seconds)
    watched.domains = ()
    watched.checks.follow()
    watched.world.clock.advance(pause)
    rank = replace(watched.held.rank, below=-priority)
    ends = watched.world.clock.monotonic() + LIMITS.for_seconds
    watched.domains = (replace(watched.held, owner=("gang", "default/other"), rank=rank, ends=ends),)
    watched.found.clear()
    watched.checks.follow()
    assert [text for text in watched.found if "ran out" in text] == [] if is_right else watched.found


def test_more_than_the_share_is_held_for_one_gang_alone() -> None:
    watched = Watched()
    watched.most_held = 1
    watched.checks.follow()
    assert not watched.found
    rank = replace(watched.held.rank, pod="default/train-1")
    watched.domains = (
        watched.held,
        replace(watched.held, owner=("gang", "default/other"), rank=rank, nodes=frozenset(["b1"])),
    )
    watched.checks.follow()
    assert any("may be 1" in text for text in watched.found)


def test_nothing_is_held_for_longer_or_for_somebody_without_claims_or_while_it_is_turned_off() -> None:
    watched = Watched()
    watched.world.add_pod("bare")
    watched.world.settle(1)
    now = watched.world.clock.monotonic()
    rank = replace(watched.held.rank, pod="default/bare")
    watched.domains, watched.held_nodes = (), (Hold.of_pod(rank, "a1", now + LIMITS.for_seconds + 1),)
    off = HoldChecks(lambda: watched, watched.world.clock, watched.found, LIMITS.model_copy(update={"enabled": False}))
    off.follow()
    assert [text.split("default/bare")[1][:12] for text in watched.found] == [
        ", although t",
        f" until {now + LIMITS.for_seconds + 1}"[:12],
        ", which want",
    ]


def test_what_a_pod_wanted_that_is_gone_is_not_judged() -> None:
    """A controller that reads the API again has its holds as before, until it comes to the pods."""
    watched = Watched()
    rank = replace(watched.held.rank, pod="default/gone")
    watched.domains, watched.held_nodes = (), (Hold.of_pod(rank, "a1", watched.world.clock.monotonic() + 10),)
    watched.checks.follow()
    assert not watched.found
