"""The one text for why claims cannot be allocated; used by Events, conditions, logs and commands."""

from collections.abc import Mapping
from typing import Final

from controller.allocation.reasons import Unsatisfiable

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
    return _cut(". ".join(f"{_nodes(nodes)}: {'; '.join(reasons)}" for reasons, nodes in ordered[:20]), limit)


def _nodes(names: list[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]}"
    more = ", ..." if len(names) > _NAMED_NODES else ""
    return f"{len(names)} nodes ({', '.join(names[:_NAMED_NODES])}{more})"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
