"""For which nodes a change of a slice or of an allocation matters. Pure."""

from driver.model import Allocation, Slice


class SliceNodes:
    """The node of each slice, and whether devices of our driver can be reached from several nodes."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._node_of: dict[str, str] = {}
        self._shared: set[str] = set()

    def put(self, part: Slice) -> set[str]:
        """Add or replace a slice; returns the nodes it concerns, "" meaning every node."""
        affected = self.remove(part.name)
        self._node_of[part.name] = part.scope.node_name
        if part.driver == self._driver and not part.scope.node_name:
            self._shared.add(part.name)
        return affected | {part.scope.node_name}

    def remove(self, name: str) -> set[str]:
        """Remove a slice; returns the nodes it concerned, "" meaning every node."""
        self._shared.discard(name)
        before = self._node_of.pop(name, None)
        return set() if before is None else {before}

    def affected_by(self, allocation: Allocation) -> str:
        """The node on which this allocation changes what is free; "" for every node."""
        return "" if self._shared else allocation.node_name
