"""Renders reasons as text for Events, conditions, logs and commands."""

from collections.abc import Mapping, Sequence

from controller.allocation.reasons.summary import MOST_NAMED, Closest, NodeGroup, NodeReasons, Summary, summarise
from controller.allocation.reasons.unsatisfiable import Unsatisfiable, sentences
from driver.limits import MAX_EVENT_MESSAGE, bounded, listed


def render(
    answer: Unsatisfiable | Summary | Mapping[str, Unsatisfiable], limit: int = MAX_EVENT_MESSAGE, between: str = ". "
) -> str:
    """The reasons in at most ``limit`` characters, in the order of the summary.

    The closest miss is always part of the text. ``between`` separates the groups.
    """
    if isinstance(answer, Unsatisfiable):
        return listed(answer.reasons, limit)
    if not isinstance(answer, Summary):
        answer = summarise({node: NodeReasons(devices=answer[node]) for node in sorted(answer)})
    if answer.faults:
        return listed(tuple(map(str, answer.faults)), limit)
    text = between.join(_group(group) for group in answer.groups)
    closest = between + _closest(answer.closest) if answer.closest and len(answer.groups) > 1 else ""
    closest = bounded(closest, limit // 2)
    return bounded(text, limit - len(closest)) + closest


def _group(group: NodeGroup) -> str:
    reasons = list(group.reasons.predicates)
    if group.reasons.devices is not None:
        reasons += sentences(group.reasons.devices)
    if group.summed:
        return f"{group.nodes} other nodes, together: {'; '.join(reasons)}"
    who = _nodes(group.nodes, group.named)
    if group.reasons.devices is None:
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
