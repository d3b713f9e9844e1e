"""Renders why no node takes a pod: as the text of its condition and Event, and as a value for JSON. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from controller.allocation import NodeReasons
from controller.explaining.summary import Summary, render, summarise
from controller.reconcile.decisions import PodRefusal, Reason, Wait
from controller.reconcile.othernames import named_within
from driver.errors import Fault
from driver.limits import MAX_EVENT_MESSAGE, bounded, first_of

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
        verdict = f"0 of {_nodes(self.nodes)} can take the pod."
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
    said = (f"{_REFUSED} {_nodes(count)}: {clause}. " for clause, count in counted.most_common())
    return "".join(islice(said, _MOST_CLAUSES))


def _nodes(count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'}"


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
