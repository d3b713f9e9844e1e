"""Small gangs decided by trying everything: what the decision must agree with."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, assert_never

from controller.gangs import Level, SubGroup, SubGroups
from driver.parameters import PlacementPolicy

Path = tuple[str, ...]
UID = "uid-gang"
UNPLACED = None
_MILLION = 1_000_000


@dataclass(frozen=True)
class Node:
    """A node with whole cards, some of them in use, each of which can be divided into two halves instead; and with
    cards of another kind."""

    ib: str
    leaf: str
    cards: int
    used: int
    cpus: int
    others: int = 0

    @property
    def free(self) -> int:
        return self.cards - self.used


class Way(NamedTuple):
    """What a member may get: whole cards, halves, and cards of the other kind."""

    whole: int = 0
    halves: int = 0
    others: int = 0


@dataclass(frozen=True)
class Asking:
    """A member: one of some ways, the first ones rather, and CPUs."""

    ways: tuple[Way, ...]
    cpus: int


@dataclass(frozen=True)
class Stood:
    """A member that has a whole card of a node already."""

    node: int
    rank: int
    sub_group: SubGroup | None = None


@dataclass(frozen=True)
class Problem:
    """A gang and a cluster.

    Attributes:
        ranks: of the members; without any, they are in the order of their names.
        leader: whether the first member is the leader.
        shared: pairs of members; the second one shares the claim of the first, and has none of its own.
        standing: members that have their place already; they count for the minimum.
        in_sub_groups: the sub-group of each member.
        starts: whether sub-groups of which members stand have to become whole.
    """

    nodes: tuple[Node, ...]
    members: tuple[Asking, ...]
    minimum: int
    levels: tuple[Level, ...]
    policy: PlacementPolicy = "binpack"
    apart: bool = False
    task_minimums: tuple[tuple[str, int], ...] = ()
    ranks: tuple[int, ...] = ()
    leader: bool = False
    shared: tuple[tuple[int, int], ...] = ()
    standing: tuple[Stood, ...] = ()
    sub_groups: tuple[SubGroups, ...] = ()
    in_sub_groups: tuple[SubGroup | None, ...] = ()
    succeeded: tuple[tuple[SubGroup, int], ...] = ()
    starts: bool = False

    @property
    def of_all(self) -> int:
        """Levels down to the innermost that holds for members without devices, too: those outside any attribute."""
        kinds = [level.kind for level in self.levels]
        return kinds.index("attribute") if "attribute" in kinds else len(kinds)

    def path(self, at: int) -> Path:
        node = self.nodes[at]
        named = {"ib": node.ib, "leaf": node.leaf, "host": f"n{at}"}
        # A node without devices has no attribute.
        values = [
            named[level.key.rpartition("/")[2]] if level.kind == "nodeLabel" or node.cards else ""
            for level in self.levels
        ]
        end = values.index("") if "" in values else len(values)
        return (*values[:end], *[""] * (len(values) - end))

    def rank(self, member: int) -> int:
        return self.ranks[member] if self.ranks else member

    def positions(self) -> list[int]:
        """The places in the order of ranks by which groups are counted: of the members, then of those that stand."""
        ranks = [*(self.rank(number) for number in range(len(self.members))), *(one.rank for one in self.standing)]
        counted = [number for number in range(len(ranks)) if not (self.leader and number == 0)]
        if len({ranks[number] for number in counted}) < len(counted):
            for position, number in enumerate(sorted(counted, key=lambda number: (ranks[number], number))):
                ranks[number] = position
        if self.leader:
            ranks[0] = 0
        return ranks

    def every_sub_group(self) -> list[SubGroup | None]:
        """Of the members, then of those that stand."""
        return [*(self.in_sub_groups or [None] * len(self.members)), *(one.sub_group for one in self.standing)]


Assignment = tuple[int | None, ...]
"""The node of each member."""


class Kept(NamedTuple):
    """A level that has to hold for each group of ``size``; for the whole gang if that is 0.

    Attributes:
        outer: the size of the groups around it; 0 for none.
        per_sub_group: whether it has to hold for each sub-group instead.
    """

    depth: int
    level: Level
    size: int
    outer: int
    per_sub_group: bool = False

    def group(self, position: int, sub_group: SubGroup | None, task: str) -> tuple[object, ...] | None:
        """The group of the member; None if the level need not hold for it."""
        if self.level.task_groups:
            return next(((group,) for of, group in self.level.task_groups if of == task), None)
        if self.per_sub_group:
            return sub_group
        if self.outer:
            return position // self.outer, position % self.outer // self.size
        return (position // self.size,) if self.size else ()


def fits(problem: Problem, assigned: Assignment) -> bool:
    """Whether every node takes the members that are on it, and those that share a claim are together."""
    if any(assigned[one] != assigned[other] for one, other in problem.shared if other < len(assigned)):
        return False
    sharing = {other for _, other in problem.shared}
    for number in {at for at in assigned if at is not None}:
        on = [
            Asking((), one.cpus) if member in sharing else one
            for member, (one, at) in enumerate(zip(problem.members, assigned, strict=False))
            if at == number
        ]
        if problem.apart and len(on) > 1:
            return False
        if not _holds(problem.nodes[number], on, sum(one.node == number for one in problem.standing)):
            return False
    return True


def _holds(node: Node, on: Sequence[Asking], standing: int = 0) -> bool:
    if sum(one.cpus for one in on) > node.cpus:
        return False
    totals = {Way()}
    for one in on:
        ways = one.ways or (Way(),)
        totals = {Way(*map(sum, zip(total, way, strict=True))) for total in totals for way in ways}
    free = node.free - standing
    return any(whole + -(-halves // 2) <= free and others <= node.others for whole, halves, others in totals)


def enough(problem: Problem, assigned: Assignment) -> bool:
    """Whether as many members are placed as have to be, also of each task. Members are of two tasks in turn."""
    placed = [task_of(number) for number, at in enumerate(assigned) if at is not None]
    least = max(1, problem.minimum - len(problem.standing))
    of_tasks = all(placed.count(task) >= least for task, least in problem.task_minimums)
    return len(placed) >= least and of_tasks and whole(problem, assigned)


def whole(problem: Problem, assigned: Assignment) -> bool:
    """Whether each sub-group is whole or has not begun, and as many are whole as have to be."""
    new = Counter(one for one, at in zip(problem.in_sub_groups, assigned, strict=False) if one and at is not None)
    stand = Counter(one.sub_group for one in problem.standing if one.sub_group)
    there = new + stand + Counter(dict(problem.succeeded))
    for one, count in there.items():
        begins = new[one] if not stand[one] else problem.starts
        if begins and count < problem.sub_groups[one[0]].size:
            return False
    return all(
        sum(one[0] == number and count >= some.size for one, count in there.items()) >= some.minimum
        for number, some in enumerate(problem.sub_groups)
    )


def task_of(number: int) -> str:
    """Of the members, then of those that stand."""
    return ("even", "odd")[number % 2]


def keeps(problem: Problem, kept: Sequence[Kept], assigned: Assignment, *, inside: bool = False) -> bool:
    """Whether the gang, or each group, is in one domain of each of these levels.

    Args:
        inside: whether levels of devices count for members without devices, too.
    """
    positions, every = problem.positions(), (*assigned, *(one.node for one in problem.standing))
    bare = [not inside and not asking.ways for asking in problem.members] + [False] * len(problem.standing)
    for one in kept:
        groups: dict[tuple[object, ...], set[Path]] = {}
        members = zip(positions, every, bare, problem.every_sub_group(), strict=True)
        for number, (position, at, free, sub_group) in enumerate(members):
            group = one.group(position, sub_group, task_of(number))
            if at is not None and group is not None and not (free and one.depth > problem.of_all):
                groups.setdefault(group, set()).add(problem.path(at)[: one.depth])
        if any(len(paths) > 1 or not next(iter(paths))[-1] for paths in groups.values()):
            return False
    return True


def levels_of(problem: Problem) -> list[Kept]:
    """All levels. Inside a level with groups, a level holds for each group."""
    found, outer, per_sub_group = [], 0, False
    for depth, level in enumerate(problem.levels, start=1):
        per_sub_group = per_sub_group or level.per_sub_group
        size = min(level.group_size or outer, outer) if outer else level.group_size
        found.append(Kept(depth, level, size, outer, per_sub_group))
        outer = size or outer
    return found


def required(problem: Problem) -> list[Kept]:
    """The levels that have to hold in any case."""
    return [one for one in levels_of(problem) if one.level.required]


def tiers(problem: Problem) -> Iterator[list[Kept]]:
    """The levels that have to hold: all of them, then without the innermost preferred one, and so on."""
    kept = levels_of(problem)
    yield list(kept)
    for entry in reversed(tuple(kept)):
        if not entry.level.required:
            kept.remove(entry)
            yield list(kept)


def depth_of(kept: Sequence[Kept]) -> int:
    """Levels down to the innermost of which the whole gang is in one domain."""
    grouped = [one for one in kept if one.size or one.per_sub_group or one.level.task_groups]
    return max([0, *(one.depth for one in kept if one not in grouped)])


def ways(problem: Problem, assigned: Assignment = ()) -> Iterator[Assignment]:
    """Every way to place enough members."""
    if not fits(problem, assigned):
        return
    if len(assigned) < len(problem.members):
        for at in (*range(len(problem.nodes)), UNPLACED):
            yield from ways(problem, (*assigned, at))
    elif enough(problem, assigned):
        yield assigned


def best_tier(problem: Problem) -> int | None:
    """The first tier of which the levels can hold; None if the gang cannot be placed."""
    every = list(ways(problem))
    kept = enumerate(tiers(problem))
    return next((tier for tier, levels in kept if any(keeps(problem, levels, one) for one in every)), None)


def best(problem: Problem) -> tuple[int, Path, int] | None:
    """The tier, the domain and the number of domains of the next level of the best way to place enough members."""
    every = list(ways(problem))
    for tier, kept in enumerate(tiers(problem)):
        depth = depth_of(kept)
        found: dict[Path, int] = {}
        for one in every:
            if keeps(problem, kept, one):
                used = [problem.path(at) for at in one if at is not None]
                path, children = used[0][:depth], len({path[: depth + 1] for path in used})
                found[path] = min(found.get(path, children), children)
        if found:
            ranks = {path: (children, *_rank(problem, path)) for path, children in found.items()}
            path = min(ranks, key=lambda path: (ranks[path], path))
            return tier, path, found[path]
    return None


def _rank(problem: Problem, path: Path) -> tuple[object, ...]:
    match problem.policy:
        case "spread":
            inside = _inside(problem, path)
            total, used = sum(3 * node.cards for node in inside), sum(3 * node.used for node in inside)
            return used * _MILLION // max(1, total), int.from_bytes(sha256("\0".join((UID, *path)).encode()).digest())
        case "binpack" | "firstFit":
            counted = Counter(problem.members)
            main = max(counted, key=lambda one: (counted[one], -problem.members.index(one)))
            members = min(counted[main], problem.minimum)
            capacities = [capacity(problem, main, path[:depth]) for depth in range(len(path), -1, -1)]
            return capacities, sum(lost(one, members) for one in capacities)
        case _:
            assert_never(problem.policy)


def capacity(problem: Problem, asking: Asking, path: Path) -> int:
    """How many such members the domain takes."""
    most = 1 if problem.apart else 20
    inside = _inside(problem, path)
    return sum(max(n for n in range(most + 1) if _holds(node, [asking] * n)) for node in inside)


def _inside(problem: Problem, path: Path) -> list[Node]:
    return [node for at, node in enumerate(problem.nodes) if problem.path(at)[: len(path)] == path]


def lost(size: int, members: int) -> int:
    """How many blocks of 1, 2, 4, ... members there are fewer, each counted as its size."""
    return sum(s * (size // s - max(0, size - members) // s) for s in (1, 2, 4, 8, 16, 32, 64, 128))
