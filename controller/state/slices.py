"""What slices say: the nodes for which a change of one, or of an allocation, matters, and the devices' kinds. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from driver.kinds import KIND_ATTRIBUTE, UNKNOWN_KIND
from driver.model import Allocation, DeviceId, Slice
from driver.names import Names


class SliceNodes:
    """The node of each slice, and whether devices of a driver can be reached from several nodes."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._driver_of: dict[str, str] = {}
        self._shared: Counter[str] = Counter()
        """The number of slices without a node, by driver."""

    def upsert(self, part: Slice) -> set[str]:
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


class DeviceKinds:
    """The kinds of our driver's devices, slice by slice."""

    def __init__(self, names: Names):
        self._names = names
        self._pools: dict[str, dict[str, Mapping[str, str]]] = {}
        self._pool_of: dict[str, str] = {}

    def upsert(self, part: Slice) -> None:
        """Add or replace a slice."""
        self.remove(part.name)
        if part.driver != self._names.driver:
            return
        attribute = self._names.attribute(KIND_ATTRIBUTE)
        kinds = {device.name: str(device.attributes.get(attribute, UNKNOWN_KIND)) for device in part.devices}
        self._pools.setdefault(part.pool, {})[part.name] = kinds
        self._pool_of[part.name] = part.pool

    def remove(self, name: str) -> None:
        """Remove a slice."""
        if pool := self._pool_of.pop(name, None):
            del self._pools[pool][name]
            if not self._pools[pool]:
                del self._pools[pool]

    def count(self, devices: Iterable[DeviceId]) -> Mapping[str, int]:
        """Return the number of devices by kind; devices of other drivers do not count."""
        counts: dict[str, int] = {}
        for device in devices:
            if device.driver == self._names.driver:
                slices = self._pools.get(device.pool, {}).values()
                kind = next((kinds[device.device] for kinds in slices if device.device in kinds), UNKNOWN_KIND)
                counts[kind] = counts.get(kind, 0) + 1
        return counts
