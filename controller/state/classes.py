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


class DeviceClasses(Mapping[str, ClassRecord]):
    """All device classes by name. A class is ours if one of its selectors contains our driver's name in quotes."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._classes: dict[str, ClassRecord] = {}

    def __getitem__(self, name: str) -> ClassRecord:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def put(self, obj: Object) -> DeviceClass:
        """Add or replace a class; returns it as a value.

        Raises:
            LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
        """
        value = class_from(obj)
        quoted = (f'"{self._driver}"', f"'{self._driver}'")
        ours = any(name in selector for selector in value.selectors for name in quoted)
        extended = (obj.get("spec") or {}).get("extendedResourceName") or ""
        self._classes[value.name] = ClassRecord(value, ours, extended)
        return value

    def remove(self, name: str) -> bool:
        """Remove a class; returns whether it was known."""
        return self._classes.pop(name, None) is not None

    @property
    def extended_resources(self) -> frozenset[str]:
        """The extended resources that device classes stand for."""
        return frozenset(record.extended_resource for record in self._classes.values()) - {""}
