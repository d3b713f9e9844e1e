"""The kind (``gpu``, ``gpu-share``, ...) of each published device, for the gauge of allocated devices. Pure."""

from collections.abc import Iterable, Mapping

from driver.kinds import KIND_ATTRIBUTE, UNKNOWN_KIND
from driver.model import DeviceId, Slice
from driver.names import Names


class DeviceKinds:
    """The kinds of our driver's devices, slice by slice."""

    def __init__(self, names: Names):
        self._names = names
        self._pools: dict[str, dict[str, Mapping[str, str]]] = {}
        self._pool_of: dict[str, str] = {}

    def put(self, part: Slice) -> None:
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
