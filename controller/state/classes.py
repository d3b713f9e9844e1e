"""Device classes by name, and whose devices they select. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from driver.kube.api import Object
from driver.model import DeviceClass
from driver.wire import class_from


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A device class, and whether it selects devices of our driver."""

    value: DeviceClass
    ours: bool
    extended_resource: str
    """The extended resource that pods may request instead of a claim for this class; "" if none."""


def class_record_from(obj: Object, driver: str) -> ClassRecord:
    """The record of a DeviceClass object. It is ours if one of its selectors contains our driver's name in quotes.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    value = class_from(obj)
    quoted = (f'"{driver}"', f"'{driver}'")
    ours = any(name in selector for selector in value.selectors for name in quoted)
    return ClassRecord(value, ours, (obj.get("spec") or {}).get("extendedResourceName") or "")


class DeviceClasses(Mapping[str, ClassRecord]):
    """All device classes by name."""

    def __init__(self) -> None:
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

    @property
    def extended_resources(self) -> frozenset[str]:
        """The extended resources that device classes stand for."""
        return frozenset(record.extended_resource for record in self._classes.values()) - {""}
