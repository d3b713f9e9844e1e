"""Small gangs decided by trying everything: what the decision must agree with."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product

from controller.gangs import Level, Policy

Path = tuple[str, ...]
UID = "uid-gang"
UNPLACED = None
_MILLION = 1_000_000


@dataclass(frozen=True)
class Node:
    """A node with whole cards, some of them in use; each can be divided into two halves instead."""

    ib: str
    leaf: str
    cards: int
    used: int
    cpus: int

    @property
    def free(self) -> int:
        return self.cards - self.used


@dataclass(frozen=True)
class Asking:
    """A member: whole cards, a card that may be a half, and CPUs."""

    cards: int
    cpus: int
    either: bool = False


@dataclass(frozen=True)
class Problem:
    nodes: tuple[Node, ...]
    members: tuple[Asking, ...]
    minimum: int
    levels: tuple[Level, ...]
    policy: Policy
    apart: bool
    task_minimums: tuple[tuple[str, int], ...] = ()

    def path(self, node: Node) -> Path:
        values = [{"ib": node.ib, "leaf": node.leaf}[level.key] for level in self.levels]
        end = values.index("") if "" in values else len(values)
        return (*values[:end], *[""] * (len(values) - end))


Assignment = tuple[int | None, ...]


def fits(problem: Problem, assigned: Assignment) -> bool:
    """Whether every node takes the members that are on it."""
    for number, node in enumerate(problem.nodes):
        on = [one for one, at in zip(problem.members, assigned, strict=True) if at == number]
        if problem.apart and len(on) > 1:
            return False
        if not _holds(node, on):
            return False
    return True


def _holds(node: Node, on: Sequence[Asking]) -> bool:
    either = sum(one.either for one in on)
    return sum(one.cards for one in on) + -(-either // 2) <= node.free and sum(one.cpus for one in on) <= node.cpus


def enough(problem: Problem, assigned: Assignment) -> bool:
    """Whether as many members are placed as have to be, also of each task. Members are of two tasks in turn."""
    placed = [task_of(number) for number, at in enumerate(assigned) if at is not None]
    return len(placed) >= problem.minimum and all(placed.count(task) >= least for task, least in problem.task_minimums)


def task_of(number: int) -> str:
    return ("even", "odd")[number % 2]


def keeps(problem: Problem, kept: Sequence[tuple[int, Level]], assigned: Assignment) -> bool:
    """Whether the gang, or each group, is in one domain of each of these levels."""
    outer = 0
    for depth, level in kept:
        size = min(level.group_size or outer, outer) if outer else level.group_size
        groups: dict[tuple[int, ...], set[Path]] = {}
        for position, at in enumerate(assigned):
            if at is not None:
                number = (position // outer, position % outer // size) if outer else (position // size if size else 0,)
                groups.setdefault(number, set()).add(problem.path(problem.nodes[at])[:depth])
        if any(len(paths) > 1 or not next(iter(paths))[-1] for paths in groups.values()):
            return False
        outer = size or outer
    return True


def tiers(problem: Problem) -> Iterator[list[tuple[int, Level]]]:
    """The levels that have to hold: all of them, then without the innermost preferred one, and so on."""
    kept = list(enumerate(problem.levels, start=1))
    yield list(kept)
    for entry in reversed(tuple(kept)):
        if not entry[1].required:
            kept.remove(entry)
            yield list(kept)


def depth_of(kept: Sequence[tuple[int, Level]]) -> int:
    """Levels down to the innermost of which the whole gang is in one domain."""
    grouped = [depth for depth, level in kept if level.group_size]
    return max([0, *(depth for depth, _ in kept if not grouped or depth < grouped[0])])


def best(problem: Problem) -> tuple[int, Path, int] | None:
    """The tier, the domain and the number of domains of the next level of the best way to place enough members."""
    places = [*range(len(problem.nodes)), UNPLACED]
    every = [one for one in product(places, repeat=len(problem.members)) if enough(problem, one) and fits(problem, one)]
    for tier, kept in enumerate(tiers(problem)):
        depth = depth_of(kept)
        found: dict[Path, int] = {}
        for one in every:
            if keeps(problem, kept, one):
                used = [problem.path(problem.nodes[at]) for at in one if at is not None]
                path, children = used[0][:depth], len({path[: depth + 1] for path in used})
                found[path] = min(found.get(path, children), children)
        if found:
            ranks = {path: (children, *_rank(problem, path)) for path, children in found.items()}
            path = min(ranks, key=lambda path: (ranks[path], path))
            return tier, path, found[path]
    return None


def _rank(problem: Problem, path: Path) -> tuple[int, ...]:
    inside = [node for node in problem.nodes if problem.path(node)[: len(path)] == path]
    if problem.policy is Policy.SPREAD:
        total, used = sum(3 * node.cards for node in inside), sum(3 * node.used for node in inside)
        return 0, used * _MILLION // max(1, total), int.from_bytes(sha256("\0".join((UID, *path)).encode()).digest())
    counted = Counter(problem.members)
    main = max(counted, key=lambda one: (counted[one], -problem.members.index(one)))
    members = min(counted[main], problem.minimum)
    depths = range(len(path) + 1)
    rooms = [room(problem, main, path[:depth]) for depth in depths]
    return sum(lost(one, members) for one in rooms), rooms[-1] - members


def room(problem: Problem, asking: Asking, path: Path) -> int:
    """How many such members the domain takes."""
    inside = [node for node in problem.nodes if problem.path(node)[: len(path)] == path]
    most = 1 if problem.apart else 20
    return sum(max(n for n in range(most + 1) if _holds(node, [asking] * n)) for node in inside)


def lost(size: int, members: int) -> int:
    """How many blocks of 1, 2, 4, ... members there are fewer, each counted as its size."""
    return sum(s * (size // s - max(0, size - members) // s) for s in (1, 2, 4, 8, 16, 32, 64, 128))
