"""Nodes that a condition closes, judged by the Node object and a list of types: no pattern is read."""

from collections.abc import Iterator
from typing import Final

from controller.state import State
from driver.kube.api import NODES, Api, Object

PATTERNS: Final = ("Gpu*", "KernelDeadlock")
"""``controller.closingNodeConditions`` of histories in which conditions close nodes."""
CLOSE: Final = frozenset({"GpuMemWatch", "GpuXidError", "KernelDeadlock"})
"""The types among those of histories that these patterns name."""
DO_NOT_CLOSE: Final = ("FrequentKubeletRestart", "MyGpuMemWatch")


def closing_conditions(node: Object) -> tuple[str, ...]:
    """Return the conditions that close the node where ``PATTERNS`` are set, sorted."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return tuple(sorted(one["type"] for one in conditions if one["type"] in CLOSE and one["status"] == "True"))


def closing_violations(api: Api, state: State, *, closes: bool) -> Iterator[str]:
    """Find the nodes of which a state that knows all objects believes that others close them than do.

    Args:
        closes: whether ``PATTERNS`` are set; otherwise no condition closes a node.
    """
    for node in api.list(NODES).items:
        name = node["metadata"]["name"]
        facts = state.nodes[name].facts if name in state.nodes else None
        wanted = closing_conditions(node) if closes else ()
        if facts is not None and facts.closing_conditions != wanted:
            yield f"node {name} is closed by {wanted}, and a controller believes by {facts.closing_conditions}"
