"""What is published: device classes and whose devices they select, the nodes that a slice is for, and the kinds of
devices. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.allocation import Drivers, Fleet
from controller.placement import BY_CLASS, ExtendedResources
from driver.bounded import BoundedCache
from driver.kinds import KIND_ATTRIBUTE, UNKNOWN_KIND
from driver.kube.api import Object
from driver.model import Allocation, DeviceClass, DeviceId, Slice, Want
from driver.names import Names
from driver.wire import class_from
from driver.wire.fields import text

_MOST_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A device class."""

    value: DeviceClass
    extended_resource: str
    """The extended resource that pods may request instead of a claim for this class; "" if none."""


def class_record_from(obj: Object) -> ClassRecord:
    """Return the record of a DeviceClass object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    return ClassRecord(class_from(obj), text((obj.get("spec") or {}).get("extendedResourceName")))


class DeviceClasses(Mapping[str, ClassRecord]):
    """All device classes by name."""

    def __init__(self, devices: Fleet) -> None:
        self._devices = devices
        self._drivers: BoundedCache[tuple[str, ...], Drivers] = BoundedCache(_MOST_REMEMBERED)
        self._classes: dict[str, ClassRecord] = {}

    def __getitem__(self, name: str) -> ClassRecord:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def upsert(self, record: ClassRecord) -> None:
        """Add or replace a class."""
        self._classes[record.value.name] = record

    def remove(self, name: str) -> bool:
        """Remove a class; returns whether it was known."""
        return self._classes.pop(name, None) is not None

    def drivers(self, want: Want) -> Drivers:
        """Return whose devices can satisfy the want: those that its class and its own selectors select.

        The want's own selectors are not looked at if the class selects devices of other drivers only.

        Raises:
            KeyError: there is no such class.
        """
        of_class = self.drivers_of_class(want.device_class)
        if of_class is Drivers.OTHERS or not want.selectors:
            return of_class
        return self._of((*self._classes[want.device_class].value.selectors, *want.selectors))

    def drivers_of_class(self, name: str) -> Drivers:
        """Return whose devices the class selects.

        Raises:
            KeyError: there is no such class.
        """
        return self._of(self._classes[name].value.selectors)

    def _of(self, selectors: tuple[str, ...]) -> Drivers:
        known = self._drivers.get(selectors)
        if known is None:
            known = self._drivers[selectors] = self._devices.drivers(selectors)
        return known

    @property
    def extended_resources(self) -> ExtendedResources:
        """The extended resources that device classes stand for.

        One that stands for several classes is kube-scheduler's if the devices of any of them are.
        """
        ours = {name for name in self._classes if self.drivers_of_class(name) is Drivers.OURS}
        named = {record.extended_resource for name, record in self._classes.items() if name in ours}
        left = {record.extended_resource for name, record in self._classes.items() if name not in ours}
        by_claim = (named - left).union(f"{BY_CLASS}{name}" for name in ours)
        return ExtendedResources(frozenset(left - {""}), frozenset(by_claim - {""}))


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
