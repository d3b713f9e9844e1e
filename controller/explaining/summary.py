"""The reasons why no node fits a pod: nodes grouped by reasons, and the closest miss, as values and as text. Pure.

The size is bounded on any fleet: at most ``MOST_GROUPS`` groups, the last of which may sum up all others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller.allocation.reasons import MOST_HOLDERS, Cause, NodeReasons, Shortage, exclusions, faults_to_json
from driver.errors import Fault
from driver.limits import MAX_EVENT_MESSAGE, bounded, listed
from driver.wire import Json

MOST_GROUPS: Final = 8
"""Groups of nodes that are distinguished."""
MOST_NAMED: Final = 3
"""Nodes of a group that a message names."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reasons.

    Attributes:
        nodes: the number of nodes.
        named: the names of some of them.
        reasons: their reasons, with some of the claims that hold devices.
        summed: whether the reasons of the nodes differ, so that numbers of devices are sums.
    """

    nodes: int
    named: tuple[str, ...]
    reasons: NodeReasons
    summed: bool = False

    def to_json(self) -> Json:
        """JSON with the keys nodes, named, predicates, devices (null where predicates exclude the nodes) and summed."""
        return {
            "nodes": self.nodes,
            "named": list(self.named),
            "predicates": list(self.reasons.predicates),
            "devices": self.reasons.devices_to_json() if self.reasons.of_devices else None,
            "summed": self.summed,
        }


@dataclass(frozen=True, slots=True)
class Closest:
    """The nodes that lack the fewest devices, where only one request is short.

    Attributes:
        freeing: claims whose end would be sufficient, on node ``on`` ("" for each node).
    """

    nodes: int
    named: tuple[str, ...]
    request: str
    fit: int
    wanted: int
    freeing: tuple[str, ...] = ()
    on: str = ""

    def to_json(self) -> Json:
        """JSON with the keys nodes, named, request, fit, wanted, freeing and on."""
        return {
            "nodes": self.nodes,
            "named": list(self.named),
            "request": self.request,
            "fit": self.fit,
            "wanted": self.wanted,
            "freeing": list(self.freeing),
            "on": self.on,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The reasons why none of the nodes fits the pod.

    Attributes:
        nodes: the number of nodes.
        faults: the faults of the claims as written. If there are faults, nodes do not matter.
        groups: nodes with the same reasons. Nodes whose devices other claims hold come first, then nodes to which the
            pod cannot go, then nodes that never have enough; in each of these, the largest group first. The last group
            may sum up many.
    """

    nodes: int
    faults: tuple[Fault, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    closest: Closest | None = None

    def to_json(self) -> Json:
        """JSON with the keys nodes, faults (claim, field, message), groups and closest (null if none is close)."""
        return {
            "nodes": self.nodes,
            "faults": faults_to_json(self.faults),
            "groups": [group.to_json() for group in self.groups],
            "closest": self.closest.to_json() if self.closest else None,
        }


def summarise(refused: Mapping[str, NodeReasons]) -> Summary:
    """Groups the reasons of all nodes. Nodes are named in the order of ``refused``."""
    faults = next((one.faults for one in refused.values() if one.faults), ())
    if faults:
        return Summary(len(refused), faults)
    groups: dict[NodeReasons, _GroupBuilder] = {}
    closest = _Closest()
    for node, reasons in refused.items():
        key = reasons.in_general()
        closest.consider(node, reasons.shortages)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _GroupBuilder(key)
        group.add(node, reasons)
    ordered = sorted(groups.values(), key=lambda group: (_promise(group.key), -group.nodes, group.named))
    if len(ordered) > MOST_GROUPS:
        ordered[MOST_GROUPS - 1 :] = [_rest(ordered[MOST_GROUPS - 1 :])]
    return Summary(len(refused), (), tuple(group.result() for group in ordered), closest.result())


def _promise(reasons: NodeReasons) -> int:
    """The sort key of reasons: devices in use first, then the node, then devices that never fit."""
    if not reasons.of_devices:
        return 1
    return 2 if reasons.for_good else 0


@dataclass(slots=True)
class _Holders:
    """The claims that hold devices for one request on several nodes."""

    holders: list[str] = field(default_factory=list)
    count: int = 0
    freeing: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, one: Shortage) -> None:
        if len(self.holders) < MOST_HOLDERS or one.holders[:1] < (self.holders[-1],):
            self.holders = sorted({*self.holders, *one.holders})[:MOST_HOLDERS]
        self.count += len(one.holders) + one.more_holders
        if len(self.freeing) < 2:
            self.freeing.add(one.freeing)

    def result(self, one: Shortage) -> Shortage:
        freeing = next(iter(self.freeing)) if len(self.freeing) == 1 else ()
        return replace(
            one, holders=tuple(self.holders), more_holders=max(0, self.count - len(self.holders)), freeing=freeing
        )


class _GroupBuilder:
    def __init__(self, key: NodeReasons, *, summed: bool = False):
        self.nodes = 0
        self.named: list[str] = []
        self.key = key
        self._summed = summed
        self.holders = [_Holders() for _ in key.shortages]

    def add(self, node: str, reasons: NodeReasons) -> None:
        self.nodes += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(node)
        for one, shortage in zip(self.holders, reasons.shortages, strict=True):
            if shortage.holders or shortage.freeing:
                one.add(shortage)

    def result(self) -> NodeGroup:
        shortages = zip(self.holders, self.key.shortages, strict=True)
        reasons = replace(self.key, shortages=tuple(one.result(shortage) for one, shortage in shortages))
        return NodeGroup(self.nodes, tuple(self.named), reasons, self._summed)


def _rest(groups: Sequence[_GroupBuilder]) -> _GroupBuilder:
    """Several groups as one, with the sums of their numbers."""
    shortages: dict[tuple[str, str], list[tuple[int, Shortage, _Holders]]] = {}
    for group in groups:
        for one, way in zip(group.key.shortages, group.holders, strict=True):
            shortages.setdefault((one.claim, one.request), []).append((group.nodes, one, way))
    lost = Counter[Cause]()
    for group in groups:
        for exclusion in group.key.together:
            lost[exclusion.by, exclusion.name] += exclusion.count * group.nodes
    predicates = dict.fromkeys(text for group in groups for text in group.key.predicates)
    answers = [group.key for group in groups if group.key.of_devices]
    reasons = NodeReasons(
        tuple(predicates)[:MOST_GROUPS],
        shortages=tuple(_summed(some) for some in shortages.values()),
        together=exclusions(lost.items()),
        pools=tuple(dict.fromkeys(pool for answer in answers for pool in answer.pools))[:MOST_NAMED],
        undecided=any(answer.undecided for answer in answers),
        for_good=all(answer.for_good for answer in answers),
    )
    result = _GroupBuilder(reasons, summed=True)
    result.nodes = sum(group.nodes for group in groups)
    result.named = [name for group in groups for name in group.named][:MOST_NAMED]
    for total, some in zip(result.holders, shortages.values(), strict=True):
        for _, _, way in some:
            total.holders = sorted({*total.holders, *way.holders})[:MOST_HOLDERS]
            total.count += way.count
    return result


def _summed(some: Iterable[tuple[int, Shortage, _Holders]]) -> Shortage:
    counted = Counter[Cause]()
    seen = available = 0
    incomplete = False
    for nodes, one, _ in some:
        incomplete = incomplete or one.incomplete
        seen += nodes * one.seen
        available += nodes * one.available
        for exclusion in one.exclusions:
            counted[exclusion.by, exclusion.name] += nodes * exclusion.count
    found = exclusions(counted.items())
    return replace(one, seen=seen, available=available, exclusions=found, incomplete=incomplete)


class _Closest:
    """Finds the nodes that lack the fewest devices, where only one request is short."""

    def __init__(self) -> None:
        self._nodes = 0
        self._named: list[str] = []
        self._best: Shortage | None = None
        self._freeing: dict[tuple[str, ...], str] = {}
        """The fewest claims that would have to end, and a node. A second entry means that nodes differ."""

    def consider(self, node: str, shortages: Sequence[Shortage]) -> None:
        match shortages:
            case (Shortage(wanted=int(wanted)) as one,) if one.available < wanted and (one.available or one.freeing):
                pass
            case _:
                return
        best = self._best
        if best is None or (one.missing, one.wanted) < (best.missing, best.wanted):
            self._best, self._nodes, self._named, self._freeing = one, 0, [], {}
        elif (one.missing, one.wanted) > (best.missing, best.wanted):
            return
        self._nodes += 1
        if len(self._named) < MOST_NAMED:
            self._named.append(node)
        self._freeing.setdefault(one.freeing, node)
        if len(self._freeing) > 2:
            worst = max(self._freeing, key=lambda freeing: (not freeing, len(freeing), freeing))
            del self._freeing[worst]

    def result(self) -> Closest | None:
        if self._best is None:
            return None
        wanted = self._best.wanted
        assert isinstance(wanted, int)
        freeing = min(self._freeing, key=lambda freeing: (not freeing, len(freeing), freeing))
        on = self._freeing[freeing] if freeing and len(self._freeing) > 1 else ""
        fit = wanted - self._best.missing
        return Closest(
            self._nodes, tuple(self._named), request=self._best.request, fit=fit, wanted=wanted, freeing=freeing, on=on
        )


def render(
    answer: NodeReasons | Summary | Mapping[str, NodeReasons], limit: int = MAX_EVENT_MESSAGE, between: str = ". "
) -> str:
    """The reasons in at most ``limit`` characters, in the order of the summary.

    The closest miss is always part of the text. ``between`` separates the groups.
    """
    if isinstance(answer, NodeReasons):
        return listed(answer.sentences, limit)
    if not isinstance(answer, Summary):
        answer = summarise({node: answer[node] for node in sorted(answer)})
    if answer.faults:
        return listed(tuple(map(str, answer.faults)), limit)
    text = between.join(_group(group) for group in answer.groups)
    closest = between + _closest(answer.closest) if answer.closest and len(answer.groups) > 1 else ""
    closest = bounded(closest, limit // 2)
    return bounded(text, limit - len(closest)) + closest


def _group(group: NodeGroup) -> str:
    reasons = group.reasons.sentences
    if group.summed:
        return f"{group.nodes} other nodes, together: {'; '.join(reasons)}"
    who = _nodes(group.nodes, group.named)
    if not group.reasons.of_devices:
        who = "1 node" if group.nodes == 1 else f"{group.nodes} nodes"
    return f"{who}: {'; '.join(reasons)}"


def _closest(closest: Closest) -> str:
    have = "has" if closest.nodes == 1 else "have"
    text = f"Closest: {_nodes(closest.nodes, closest.named)} {have} {closest.fit} of {closest.wanted}"
    if not closest.freeing:
        return text
    where = f"on node {closest.on} " if closest.on else ""
    return f"{text}; {where}freeing {', '.join(closest.freeing)[: MOST_NAMED * 100]} would do"


def _nodes(count: int, named: Sequence[str]) -> str:
    if count == 1:
        return f"node {named[0]}"
    more = ", ..." if count > len(named) else ""
    return f"{count} nodes ({', '.join(named)}{more})"
