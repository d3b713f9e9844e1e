"""Why no node takes a pod, in words: nodes grouped by their reasons, and the closest miss. Pure.

A ``Summary`` is a value, for JSON, and a ``Message`` the text of a pod's condition and Event. The size of both is
bounded on any fleet: at most ``MOST_GROUPS`` groups, the last of which may sum up all others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from controller.allocation.reasons import MOST_HOLDERS, Cause, NodeReasons, Shortage, exclusions, faults_to_json
from controller.reconcile.decisions import PodRefusal, Reason, Wait
from controller.reconcile.othernames import named_within
from driver.errors import Fault
from driver.limits import MAX_EVENT_MESSAGE, bounded, first_of, listed
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
    who = _nodes(group.nodes, group.named) if group.reasons.of_devices else _number_of_nodes(group.nodes)
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


def _number_of_nodes(count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'}"


# What a pod is told

HELD_BACK: Final = "held back for"
"""Start of the reason of a node that is held back for another pod."""
_REFUSED: Final = "kube-scheduler refuses the pod on"
IN_VAIN: Final = "Waiting does not help: no node has what the claims ask for, even if nothing was in use."
_NO_NODES: Final = "the cluster has no nodes; the pod is placed as soon as there is one with such devices"
_MOST_OF_DOMAINS: Final = MAX_EVENT_MESSAGE // 2
"""Most characters about the domains of a gang in a message that also says why no node takes a member."""
_MOST_CLAUSES: Final = 3
"""Most clauses of kube-scheduler in one message."""


@dataclass(frozen=True, slots=True)
class Message:
    """Why no node takes a pod, in words: the same for all pods of its shape, but for the names of their claims."""

    nodes: int
    """The number of nodes that were tried."""
    said: str
    """The text about nodes that kube-scheduler refused; "" if there are none."""
    others: Summary | None
    """The reasons of the other nodes; None if there are none."""
    claims: tuple[str, ...]
    """Keys of the claims that are named."""
    bound_to: str = ""
    """The node that the pod is bound to already; "" for none."""
    impossible: bool = False
    """True if the pod waits in vain, as the nodes are (``Questions.impossible``)."""
    no_nodes: bool = False
    """True if the cluster has no nodes at all."""
    tied_by: tuple[str, ...] = ()
    """Keys of the pod's claims that hold devices, which other nodes do not reach."""

    @property
    def reason(self) -> Reason:
        """The reason of the pod's condition and Event."""
        if self.bound_to:
            return Reason.BOUND_WITHOUT_DEVICES
        return Reason.IMPOSSIBLE if self.impossible else Reason.UNALLOCATABLE

    def text(self, claims: Sequence[str], limit: int = MAX_EVENT_MESSAGE) -> str:
        """Return the text in at most ``limit`` characters, for everybody who may read the pod.

        The clauses of kube-scheduler come first. Nodes with equal reasons are grouped. Claims of other namespaces are
        counted, not named, because a reader of the pod may not be allowed to list them.

        Args:
            claims: keys of the pod's claims, in the order in which they were tried.
        """
        if not self.nodes:
            return _NO_NODES if self.no_nodes else f"no node can reach all devices that {self._ties()} already hold"
        head = f"{self.said}{self._verdict()} "
        if self.others is None:
            return head.strip()
        namespaces = {key.partition("/")[0] for key in claims}
        summary = _with_names(self.others, dict(zip(self.claims, claims, strict=True)), namespaces)
        return head + render(summary, max(0, limit - len(head)))

    def _ties(self) -> str:
        named = first_of(self.tied_by, _MOST_CLAUSES)
        return f"the pod's claims ({named})" if named else "the pod's claims"

    def _verdict(self) -> str:
        if self.bound_to:
            return (
                f"the pod is bound to node {self.bound_to}, but has no devices there. It starts as soon as they can be "
                "allocated; to have it placed on another node, make it again without spec.nodeName."
            )
        verdict = f"0 of {_number_of_nodes(self.nodes)} can take the pod."
        if self.tied_by:
            verdict += f" Others do not reach all devices that {self._ties()} already hold."
        return f"{verdict} {IN_VAIN}" if self.impossible else verdict


def with_member(wait: Wait, member: PodRefusal, message: Message) -> Wait:
    """Return what a gang is told that waits for ``member``, which no node takes: the same as a single pod, besides.

    If waiting is in vain, what its domains take does not matter.
    """
    in_vain = message.reason is Reason.IMPOSSIBLE
    gang, colon, _ = wait.message.partition(": ")
    head = f"{gang}{colon}" if in_vain else f"{bounded(wait.message, _MOST_OF_DOMAINS)}; "
    head += f"pod {member.subject}: "
    return replace(
        wait,
        reason=message.reason,
        message=head + message.text(member.why.claims, MAX_EVENT_MESSAGE - len(head)),
        nowhere=None,
    )


def message_of(
    reasons: Mapping[str, NodeReasons],
    claims: Sequence[str],
    *,
    bound_to: str = "",
    impossible: bool = False,
    no_nodes: bool = False,
    tied_by: tuple[str, ...] = (),
) -> Message:
    """Combine the reasons of all nodes.

    Args:
        reasons: every node tried, and why it refuses the pod.
        claims: keys of the pod's claims, in the order in which they were tried.
        bound_to: the node that the pod is bound to already; "" for none.
        impossible: ``Questions.impossible``.
        no_nodes: whether the cluster has no nodes at all.
        tied_by: keys of the pod's claims that hold devices, which other nodes do not reach.
    """
    others = {name: one for name, one in reasons.items() if not one.clause}
    return Message(
        nodes=len(reasons),
        said=_said_by_scheduler(reasons),
        others=summary_of(others, claims) if others else None,
        claims=tuple(claims),
        bound_to=bound_to,
        impossible=impossible,
        no_nodes=no_nodes,
        tied_by=tied_by,
    )


def rests_on_memory(message: str) -> bool:
    """Return whether a message names nodes that refused the pod or are held back.

    Only a running controller knows these: the pod's condition and Events count such nodes, and name the last one at
    most.
    """
    return message.startswith(_REFUSED) or HELD_BACK in message


def _said_by_scheduler(reasons: Mapping[str, NodeReasons]) -> str:
    counted = Counter(one.clause for one in reasons.values() if one.clause)
    said = (f"{_REFUSED} {_number_of_nodes(count)}: {clause}. " for clause, count in counted.most_common())
    return "".join(islice(said, _MOST_CLAUSES))


def _with_names(summary: Summary, names: Mapping[str, str], namespaces: Collection[str]) -> Summary:
    """Return the summary with these names of claims, and without names of claims of other namespaces."""
    groups = tuple(replace(group, reasons=_reasons_with(group.reasons, names, namespaces)) for group in summary.groups)
    closest = summary.closest
    if closest is not None:
        closest = replace(closest, freeing=named_within(closest.freeing, namespaces, "claim"))
    return replace(summary, faults=_faults_with(summary.faults, names), groups=groups, closest=closest)


def _faults_with(faults: Sequence[Fault], names: Mapping[str, str]) -> tuple[Fault, ...]:
    return tuple(replace(fault, key=names.get(fault.key, fault.key)) for fault in faults)


def _reasons_with(reasons: NodeReasons, names: Mapping[str, str], namespaces: Collection[str]) -> NodeReasons:
    shortages = tuple(
        replace(
            one,
            claim=names.get(one.claim, one.claim),
            holders=named_within(one.holders, namespaces, "claim"),
            freeing=named_within(one.freeing, namespaces, "claim"),
        )
        for one in reasons.shortages
    )
    return replace(reasons, shortages=shortages)


def summary_of(reasons: Mapping[str, NodeReasons], claims: Sequence[str]) -> Summary:
    """Return the reasons of all nodes as a value for JSON; ``Summary.to_json`` documents its keys."""
    return summarise({name: _naming(one, claims) for name, one in reasons.items()})


def _naming(reasons: NodeReasons, claims: Sequence[str]) -> NodeReasons:
    """Return the reasons that were found for claims with equal specs, with the names of these claims."""
    if not reasons.of_devices or reasons.claims == tuple(claims):
        return reasons
    names = dict(zip(reasons.claims, claims, strict=True))
    shortages = tuple(
        replace(shortage, claim=names.get(shortage.claim, shortage.claim)) for shortage in reasons.shortages
    )
    return replace(reasons, faults=_faults_with(reasons.faults, names), shortages=shortages)
