"""Device classes by name, and whose devices they select. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.selectors import Drivers, drivers_selected
from driver.bounded import BoundedCache
from driver.kube.api import Object
from driver.model import DeviceClass, Want
from driver.wire import class_from

_MOST_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A device class."""

    value: DeviceClass
    extended_resource: str
    """The extended resource that pods may request instead of a claim for this class; "" if none."""


def class_record_from(obj: Object) -> ClassRecord:
    """The record of a DeviceClass object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    return ClassRecord(class_from(obj), (obj.get("spec") or {}).get("extendedResourceName") or "")


class DeviceClasses(Mapping[str, ClassRecord]):
    """All device classes by name."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._drivers: BoundedCache[tuple[str, ...], Drivers] = BoundedCache(_MOST_REMEMBERED)
        self._classes: dict[str, ClassRecord] = {}

    def __getitem__(self, name: str) -> ClassRecord:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def put(self, record: ClassRecord) -> None:
        """Add or replace a class."""
        self._classes[record.value.name] = record

    def remove(self, name: str) -> bool:
        """Remove a class; returns whether it was known."""
        return self._classes.pop(name, None) is not None

    def drivers(self, want: Want) -> Drivers:
        """Whose devices can satisfy the want: what its class and its own selectors select.

        Raises:
            KeyError: there is no such class.
        """
        selectors = (*self._classes[want.device_class].value.selectors, *want.selectors)
        known = self._drivers.get(selectors)
        if known is None:
            known = self._drivers[selectors] = drivers_selected(selectors, self._driver)
        return known

    @property
    def extended_resources(self) -> frozenset[str]:
        """The extended resources that device classes stand for."""
        return frozenset(record.extended_resource for record in self._classes.values()) - {""}
