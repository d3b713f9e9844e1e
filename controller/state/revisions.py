"""How often each node has changed by others than this controller. Pure."""

from collections import Counter

Revision = tuple[object, ...]
"""What a node was for a pod; only compared with others of the same node and pod."""


class NodeRevisions:
    """Revisions of nodes, by which a refusal of kube-scheduler is known to be out of date.

    A revision grows when the Node object changes, when a pod is bound there or ends there, when the slices of the node
    change, and when another driver's devices there are allocated or freed. Unlike ``Nodes.version_of``, it does not
    grow when this controller allocates devices there or takes them back: kube-scheduler's answer stays the same.
    """

    def __init__(self) -> None:
        self._common = 0
        self._own: Counter[str] = Counter()

    def of(self, node: str) -> tuple[int, int]:
        """The node's revision; differs from an earlier one if others have changed something there since."""
        return self._common, self._own[node]

    def advance(self, node: str) -> None:
        """Something on the node has changed; on every node if ``node`` is ""."""
        if node:
            self._own[node] += 1
        else:
            self._common += 1
