"""Finds the nodes for which a change of a slice or of an allocation matters. Pure."""

from collections import Counter

from driver.model import Allocation, Slice


class SliceNodes:
    """The node of each slice, and whether devices of a driver can be reached from several nodes."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._driver_of: dict[str, str] = {}
        self._shared: Counter[str] = Counter()
        """The number of slices without a node, by driver."""

    def put(self, part: Slice) -> set[str]:
        """Add or replace a slice; return the nodes it concerns, "" meaning every node."""
        affected = self.remove(part.name)
        self._node_of[part.name] = part.scope.node_name
        self._driver_of[part.name] = part.driver
        self._shared[part.driver] += not part.scope.node_name
        return affected | {part.scope.node_name}

    def remove(self, name: str) -> set[str]:
        """Remove a slice; return the nodes it concerned, "" meaning every node."""
        before = self._node_of.pop(name, None)
        if before is None:
            return set()
        self._shared[self._driver_of.pop(name)] -= not before
        return {before}

    def affected_by(self, allocation: Allocation) -> str:
        """Return the node whose free devices this allocation changes; "" for every node."""
        shared = any(self._shared[result.device.driver] for result in allocation.results)
        return "" if shared else allocation.node_name
