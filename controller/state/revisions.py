"""Counts the changes of each node by others than this controller. Pure."""

from collections.abc import Collection
from typing import Final

_MOST_FORGOTTEN: Final = 1000
"""Most names of nodes that do not exist and may be kept."""

Revision = tuple[object, ...]
"""A node as a pod sees it; only compared with others of the same node and pod."""


class NodeRevisions:
    """Revisions of nodes, by which a refusal of kube-scheduler is known to be out of date.

    A revision grows when the Node object changes, when a pod is bound there or ends there, when the slices of the node
    change, and when another driver's devices there are allocated or freed. Unlike ``Nodes.version_of``, it does not
    grow when this controller allocates devices there or takes them back: kube-scheduler's answer stays the same.
    """

    def __init__(self) -> None:
        self._common = 0
        self._own: dict[str, int] = {}
        self._last = 0

    def of(self, node: str) -> tuple[int, int]:
        """Return the node's revision; it differs from an earlier one if others have changed something there since."""
        return self._common, self._own.get(node, 0)

    def advance(self, node: str) -> None:
        """Note that something on the node has changed; on every node if ``node`` is ""."""
        if node:
            # A name that was forgotten gets no revision again that it had before.
            self._last += 1
            self._own[node] = self._last
        else:
            self._common += 1

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the names of nodes other than these, if they are many: with an autoscaler, names never come again."""
        if len(self._own) > 2 * len(nodes) + _MOST_FORGOTTEN:
            self._own = {node: revision for node, revision in self._own.items() if node in nodes}
