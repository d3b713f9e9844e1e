"""The one text for why claims cannot be allocated; used by Events, conditions, logs and commands."""

from collections.abc import Mapping
from typing import Final

from controller.allocation.reasons import Shortage, Unsatisfiable

LIMIT: Final = 1024
"""Characters of an Event's message (core/v1)."""
_NAMED_NODES: Final = 3


def render(answer: Unsatisfiable | Mapping[str, Unsatisfiable], limit: int = LIMIT) -> str:
    """The reasons in at most ``limit`` characters; nodes with the same reasons are told together, the largest first."""
    if isinstance(answer, Unsatisfiable):
        return _cut("; ".join(answer.reasons), limit)
    faults = next((one.faults for one in answer.values() if one.faults), ())
    if faults:
        return _cut("; ".join(map(str, faults)), limit)
    groups: dict[tuple[str, ...], list[str]] = {}
    for node in sorted(answer):
        groups.setdefault(answer[node].reasons, []).append(node)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    told = ". ".join(f"{_nodes(nodes)}: {'; '.join(reasons)}" for reasons, nodes in ordered[:20])
    closest = _closest(answer) if len(groups) > 1 else ""
    return _cut(told, limit - len(closest)) + closest


def _closest(answer: Mapping[str, Unsatisfiable]) -> str:
    """The nodes that lack fewest devices, where only one request is short and they have some."""
    misses: dict[tuple[int, int, str], list[str]] = {}
    for node in sorted(answer):
        match answer[node].shortages:
            case (Shortage(wanted=int(wanted), available=available, freeing=freeing),) if 0 < available < wanted:
                key = (wanted - available, wanted, ", ".join(freeing)[:100])
                misses.setdefault(key, []).append(node)
    if not misses:
        return ""
    missing, wanted, ending = min(misses, key=lambda key: (*key[:2], not key[2], key[2]))
    nodes = misses[missing, wanted, ending]
    have = "has" if len(nodes) == 1 else "have"
    return f". Closest: {_nodes(nodes)} {have} {wanted - missing} of {wanted}" + (
        f"; freeing {ending} would do" if ending else ""
    )


def _nodes(names: list[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]}"
    more = ", ..." if len(names) > _NAMED_NODES else ""
    return f"{len(names)} nodes ({', '.join(names[:_NAMED_NODES])}{more})"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
