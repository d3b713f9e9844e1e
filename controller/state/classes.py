"""Device classes by name, and the drivers whose devices they select. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.allocation import Drivers, Fleet
from driver.bounded import BoundedCache
from driver.kube.api import Object
from driver.model import DeviceClass, Want
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
    def extended_resources(self) -> frozenset[str]:
        """The extended resources that device classes stand for."""
        return frozenset(record.extended_resource for record in self._classes.values()) - {""}
