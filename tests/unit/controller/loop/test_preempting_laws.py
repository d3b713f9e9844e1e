"""Several preemptors at a time, in any order of events, beside a search that tries every set of victims.

Whoever can be served is served, nobody goes in vain, and nobody goes whose priority is higher than needed. So it is for
pods and for gangs, beside pods that take too long to end.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import gang_of

SLOW = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
"""Each case is a whole controller."""
SOON = 5
"""Seconds in which nothing has to be waited for but the end of pods."""
APP = "guarded"
SLOW_GRACE = 601
"""Seconds; a victim may take 600."""


@dataclass(frozen=True)
class Runs:
    """A pod that runs on a node."""

    priority: int
    cards: int
    guarded: bool = False
    """Whether the budget counts it."""
    slow: bool = False
    """Whether it takes longer to end than a victim may."""


@dataclass(frozen=True)
class Wants:
    """A pod that wants cards of one node, or a gang of such pods."""

    priority: int
    cards: int
    members: int = 0
    """The pods of a gang, which start together; 0 for a pod alone."""


class Play:
    """A cluster with pods that run, pods that preempt them, and a kubelet that is the test's.

    Args:
        nodes: the pods of each node, which has so many cards.
    """

    def __init__(self, nodes: Collection[Collection[Runs]], cards: int, allowed: int):
        self.cards = cards
        self.world = PreemptingWorld(0, 0)
        self.runs: dict[str, Runs] = {}
        self.slow: set[str] = set()
        self.node: dict[str, str] = {}
        self.wants: dict[str, Wants] = {}
        self.pods: dict[str, list[str]] = {}
        """The pods of each that wants something."""
        self.evicted: list[str] = []
        self.made = 0
        self.world.budget(allowed, app=APP)
        for number, pods in enumerate(nodes, start=1):
            # Only this node takes a pod that comes now.
            self.world.add_node(f"n{number}", cards)
            for one in pods:
                name = f"low-{len(self.runs)}"
                self.runs[name] = one
                if one.slow:
                    self.slow.add(name)
                labels = {"app": APP if one.guarded else "other"}
                grace = {"terminationGracePeriodSeconds": SLOW_GRACE} if one.slow else {}
                self.node[name] = self.world.running(name, one.priority, one.cards, labels=labels, **grace)
            free = cards - sum(one.cards for one in pods)
            if free:
                self.world.running(f"filler-{number}", 0, free)
        for number, pods in enumerate(nodes, start=1):
            if cards > sum(one.cards for one in pods):
                self.world.end(f"filler-{number}")

    # Events

    def want(self, one: Wants) -> None:
        self.made += 1
        name = f"high-{self.made}"
        self.wants[name] = one
        self.pods[name] = [f"{name}-{number}" for number in range(one.members)] or [name]
        config: Any = {"config": [gang_of(name, one.members)]} if one.members else {}
        for pod in self.pods[name]:
            self.world.add_claim(pod, one.cards, **config)
            self.world.add_pod(pod, pod, priority=HIGH + one.priority)

    def look(self) -> None:
        self.evicted += [name for name in self.world.evicted() if name not in self.evicted]

    def end_one(self, at: int) -> None:
        """One of those that were evicted ends."""
        self.look()
        if gone := self.world.evicted():
            self._end(gone[at % len(gone)])

    def end_all(self) -> None:
        """All that are evicted end, and all that may start are bound, until nothing happens any more."""
        self.world.settle(SOON)
        while True:
            self.look()
            gone, started = self.world.evicted(), self._bind()
            for name in gone:
                self._end(name)
            self.world.settle(SOON)
            if not gone and not started:
                return

    def end_any(self, at: int) -> None:
        """One of those that run ends, evicted or not."""
        self.look()
        if running := [*self.runs]:
            self._end(running[at % len(running)])

    def give_up(self, at: int) -> None:
        """One of those that wait is deleted."""
        waiting = [name for name in self.wants if not self.is_served(name)]
        if waiting:
            name = waiting[at % len(waiting)]
            for pod in self.pods[name]:
                self.world.api.delete(PODS, pod, "default", grace_period_seconds=0)
            del self.wants[name]

    def restart(self, _: int) -> None:
        self.world.start()

    def _bind(self) -> bool:
        pods = [pod for name in self.wants for pod in self.pods[name] if not self.world.gates(pod)]
        ready = [pod for pod in pods if not self.world.pod(pod)["spec"].get("nodeName")]
        for pod in ready:
            self.world.bind(pod, self.node_of(pod))
        return bool(ready)

    def _end(self, name: str) -> None:
        self.world.end(name)
        self.runs.pop(name, None)
        for owner in [owner for owner in self.wants if name in self.pods[owner]]:
            self.pods[owner].remove(name)
            if not self.pods[owner]:
                del self.wants[owner]

    # What is so in the end

    def node_of(self, name: str) -> str:
        return self.world.devices(name)[0].split("/")[0]

    def is_served(self, name: str) -> bool:
        return not any(self.world.gates(pod) for pod in self.pods[name])

    def served(self) -> list[str]:
        return [name for name in self.wants if self.is_served(name)]

    def free(self) -> Mapping[str, int]:
        used = Counter[str]()
        for name in [*self.runs, *(pod for owner in self.served() for pod in self.pods[owner])]:
            for place in self.world.devices(name):
                used[place.split("/")[0]] += 1
        return {node: self.cards - used[node] for node in self.world.controller.state.nodes}

    def could_be_served(self, name: str, allowed: int) -> Collection[str] | None:
        """Pods whose end would make room for one that waits, tried set by set; None if there are none."""
        one, free = self.wants[name], self.free()
        node = {key: where for key, where in self.node.items() if key in self.runs}
        there = {key: self.runs[key] for key in node if self.runs[key].priority < HIGH and not self.runs[key].slow}
        for key in self.served():
            if not self.wants[key].members and self.wants[key].priority < one.priority:
                there[key], node[key] = Runs(HIGH, self.wants[key].cards), self.node_of(key)
        for nodes in [[*free]] if one.members else [[where] for where in free]:
            on = [key for key in there if node[key] in nodes]
            for gone in (gone for size in range(len(on) + 1) for gone in combinations(on, size)):
                left = Counter({where: free[where] for where in nodes})
                for key in gone:
                    left[node[key]] += there[key].cards
                enough = sum(cards // one.cards for cards in left.values()) >= max(1, one.members)
                if enough and sum(there[key].guarded for key in gone) <= allowed:
                    return gone
        return None

    def allowed(self) -> int:
        return self.world.controller.state.budgets.allowed["default/budget"]


def nodes(*priorities: int) -> st.SearchStrategy[list[list[Runs]]]:
    """Up to three nodes with three cards, each with pods that fit."""

    def fitting(pods: list[Runs]) -> list[Runs]:
        kept: list[Runs] = []
        for one in pods:
            if sum(other.cards for other in kept) + one.cards <= CARDS:
                kept.append(one)
        return kept

    pods = st.lists(
        st.builds(
            Runs,
            st.sampled_from(priorities),
            st.sampled_from([1, 1, 2, 3]),
            st.sampled_from([False, False, True]),
            st.sampled_from([False, False, False, True]),
        ),
        max_size=3,
    )
    return st.lists(pods.map(fitting), min_size=1, max_size=3)


CARDS = 3
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["want", "want", "want", "pass", "pass", "end_one", "end_one", "end_any", "give_up", "restart"]
        ),
        st.integers(0, 5),
    ),
    max_size=8,
)
WANTS = st.lists(st.builds(Wants, st.integers(0, 1), st.integers(1, CARDS)), min_size=1, max_size=4)
WITH_GANGS = st.lists(
    st.one_of(
        st.builds(Wants, st.integers(0, 1), st.integers(1, 2), st.integers(2, 3)),
        st.builds(Wants, st.integers(0, 1), st.integers(1, CARDS)),
    ),
    min_size=1,
    max_size=3,
)


@SLOW
@given(running=nodes(0, 1, 2, 2 * HIGH), burst=WANTS, events=EVENTS, later=WANTS, allowed=st.integers(0, 2))
def test_whoever_can_be_served_is_served_whatever_happens_meanwhile(
    running: list[list[Runs]],
    burst: list[Wants],
    events: list[tuple[str, int]],
    later: list[Wants],
    allowed: int,
) -> None:
    check_all_are_served(Play(running, CARDS, allowed), burst, events, later)


@SLOW
@given(running=nodes(0, 1, 2, 2 * HIGH), burst=WITH_GANGS, events=EVENTS, later=WITH_GANGS, allowed=st.integers(0, 2))
def test_whichever_gang_can_be_served_is_served_beside_pods_whatever_happens_meanwhile(
    running: list[list[Runs]],
    burst: list[Wants],
    events: list[tuple[str, int]],
    later: list[Wants],
    allowed: int,
) -> None:
    check_all_are_served(Play(running, CARDS, allowed), burst, events, later)


def check_all_are_served(
    play: Play, burst: Sequence[Wants], events: Sequence[tuple[str, int]], later: Sequence[Wants]
) -> None:
    for one in burst:
        play.want(one)
    more = iter(later)
    for what, number in events:
        if what == "want":
            if (another := next(more, None)) is not None:
                play.want(another)
        elif what == "pass":
            play.world.settle(number)
        else:
            getattr(play, what)(number)
    play.end_all()
    assert play.slow.isdisjoint(play.evicted)
    for name in play.wants:
        if name not in play.served():
            assert play.could_be_served(name, play.allowed()) is None, name
    play.world.check()


@SLOW
@given(running=nodes(0, 1, 2, 3), count=st.integers(1, 5), cards=st.integers(1, CARDS), allowed=st.integers(0, 2))
def test_of_equal_preemptors_all_are_served_that_can_be_and_nobody_goes_who_need_not(
    running: list[list[Runs]], count: int, cards: int, allowed: int
) -> None:
    play = Play(running, CARDS, allowed)
    free, there = play.free(), dict(play.runs)
    for _ in range(count):
        play.want(Wants(0, cards))
    play.end_all()
    ways = list(_ways(free, there, play.node, cards, allowed))
    most = min(count, max(served for served, _ in ways))
    assert len(play.served()) == most
    assert play.slow.isdisjoint(play.evicted)
    highest = max((there[name].priority for name in play.evicted), default=-1)
    assert highest == min(priority for served, priority in ways if served >= most)
    placed = defaultdict[str, int](int)
    for name in play.served():
        placed[play.node_of(name)] += cards
    for name in play.evicted:
        node = play.node[name]
        assert placed[node] > free[node], f"{name} was evicted in vain"


def _ways(
    free: Mapping[str, int], there: Mapping[str, Runs], node_of: Mapping[str, str], cards: int, allowed: int
) -> Iterator[tuple[int, int]]:
    """For each set of pods that may go: how many are served then, and the highest priority of the set."""
    for size in range(len(there) + 1):
        for gone in combinations(there, size):
            if sum(there[name].guarded for name in gone) > allowed or any(there[name].slow for name in gone):
                continue
            left = Counter(free)
            for name in gone:
                left[node_of[name]] += there[name].cards
            yield sum(one // cards for one in left.values()), max((there[name].priority for name in gone), default=-1)


@pytest.mark.parametrize("walls", [1, 2])
def test_somebody_is_evicted_as_soon_as_that_makes_room_though_nothing_fits_without(walls: int) -> None:
    world = PreemptingWorld(1, 2 + walls)
    for number in range(walls):
        world.running(f"wall-{number}", 2 * HIGH)
    world.running("low", count=2)
    world.wanting("high", HIGH, 2 + walls)
    world.settle(SOON)
    assert world.condition("high")[1] == "Unallocatable"
    for number in range(walls):
        assert world.evicted() == []
        world.end(f"wall-{number}")
    assert world.evicted() == ["low"]
    world.end("low")
    assert len(world.devices("high")) == 2 + walls
