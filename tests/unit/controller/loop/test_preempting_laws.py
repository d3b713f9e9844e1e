"""Several preemptors at a time, in any order of events, beside a search that tries every set of victims.

Whoever can be served is served, nobody goes in vain, and nobody goes whose priority is higher than needed.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld

SLOW = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
"""Each case is a whole controller."""
SOON = 5
"""Seconds in which nothing has to be waited for but the end of pods."""
APP = "guarded"


@dataclass(frozen=True)
class Runs:
    """A pod that runs on a node."""

    priority: int
    cards: int
    guarded: bool = False
    """Whether the budget counts it."""


@dataclass(frozen=True)
class Wants:
    """A pod that wants cards of one node."""

    priority: int
    cards: int


class Play:
    """A cluster with pods that run, pods that preempt them, and a kubelet that is the test's.

    Args:
        nodes: the pods of each node, which has so many cards.
    """

    def __init__(self, nodes: Collection[Collection[Runs]], cards: int, allowed: int):
        self.cards = cards
        self.world = PreemptingWorld(0, 0)
        self.runs: dict[str, Runs] = {}
        self.node: dict[str, str] = {}
        self.wants: dict[str, Wants] = {}
        self.evicted: list[str] = []
        self.made = 0
        self.world.budget(allowed, app=APP)
        for number, pods in enumerate(nodes, start=1):
            # Only this node takes a pod that comes now.
            self.world.add_node(f"n{number}", cards)
            for one in pods:
                name = f"low-{len(self.runs)}"
                self.runs[name] = one
                labels = {"app": APP if one.guarded else "other"}
                self.node[name] = self.world.running(name, one.priority, one.cards, labels=labels)
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
        self.world.wanting(name, HIGH + one.priority, one.cards)

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
        waiting = [name for name in self.wants if self.world.gates(name)]
        if waiting:
            name = waiting[at % len(waiting)]
            self.world.api.delete(PODS, name, "default", grace_period_seconds=0)
            del self.wants[name]

    def restart(self, _: int) -> None:
        self.world.start()

    def _bind(self) -> bool:
        ready = [name for name in self.wants if not self.world.gates(name)]
        ready = [name for name in ready if not self.world.pod(name)["spec"].get("nodeName")]
        for name in ready:
            self.world.bind(name, self.node_of(name))
        return bool(ready)

    def _end(self, name: str) -> None:
        self.world.end(name)
        self.runs.pop(name, None)
        self.wants.pop(name, None)

    # What is so in the end

    def node_of(self, name: str) -> str:
        return self.world.devices(name)[0].split("/")[0]

    def served(self) -> list[str]:
        return [name for name in self.wants if not self.world.gates(name)]

    def free(self) -> Mapping[str, int]:
        used = Counter[str]()
        for name in [*self.runs, *self.served()]:
            for place in self.world.devices(name):
                used[place.split("/")[0]] += 1
        return {node: self.cards - used[node] for node in self.world.controller.state.nodes}

    def could_be_served(self, name: str, allowed: int) -> Collection[str] | None:
        """Pods whose end would make room for one that waits, tried set by set; None if there are none."""
        one, free = self.wants[name], self.free()
        for node, left in free.items():
            there = {key: its for key, its in self.runs.items() if self.node[key] == node and its.priority < HIGH}
            lower = {key: self.wants[key] for key in self.served() if self.node_of(key) == node}
            there |= {key: Runs(HIGH, its.cards) for key, its in lower.items() if its.priority < one.priority}
            for size in range(len(there) + 1):
                for gone in combinations(there, size):
                    guarded = sum(there[key].guarded for key in gone)
                    enough = left + sum(there[key].cards for key in gone) >= one.cards
                    if enough and guarded <= allowed:
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
            Runs, st.sampled_from(priorities), st.sampled_from([1, 1, 2, 3]), st.sampled_from([False, False, True])
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


@SLOW
@given(running=nodes(0, 1, 2, 2 * HIGH), burst=WANTS, events=EVENTS, later=WANTS, allowed=st.integers(0, 2))
def test_whoever_can_be_served_is_served_whatever_happens_meanwhile(
    running: list[list[Runs]],
    burst: list[Wants],
    events: list[tuple[str, int]],
    later: list[Wants],
    allowed: int,
) -> None:
    play = Play(running, CARDS, allowed)
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
            if sum(there[name].guarded for name in gone) > allowed:
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
