"""matchAttribute, distinctAttribute and compatibilityGroups (resource.k8s.io/v1). A list attribute is a value set."""

from collections.abc import Iterable

from driver.model import Constraint, Device, Scalar, UnreadableValue, Version

Values = frozenset[tuple[type, Scalar]]
"""Attribute values with their types: ``True`` is not ``1``."""
CompatibilityGroups = frozenset[str]


def values_of(device: Device, attribute: str) -> Values:
    """The device's values of a fully qualified attribute; empty if it has none, or one that cannot be read.

    Versions are equal as versions are.
    """
    value = device.attributes.get(attribute, ())
    if isinstance(value, UnreadableValue):
        return Values()
    if isinstance(value, tuple):
        return frozenset((type(one), _comparable(one)) for one in value)
    return frozenset(((type(value), _comparable(value)),))


def _comparable(value: Scalar) -> Scalar:
    # Build metadata is no part of what versions are compared by.
    return Version(value.text.partition("+")[0]) if isinstance(value, Version) else value


class ConstraintTracker:
    """The state of one constraint of one claim while devices are picked and given back."""

    __slots__ = ("_chosen", "attribute", "distinct")

    def __init__(self, constraint: Constraint):
        self.distinct = bool(constraint.distinct_attribute)
        self.attribute = constraint.distinct_attribute or constraint.match_attribute
        self._chosen: list[Values] = []

    def admits(self, device: Device) -> bool:
        """True if the device may join the devices picked so far."""
        values = values_of(device, self.attribute)
        if not values:
            return False
        if self.distinct:
            return not any(values & chosen for chosen in self._chosen)
        return not self._chosen or bool(values & self._chosen[-1])

    def add(self, device: Device) -> None:
        """Pick the device."""
        values = values_of(device, self.attribute)
        if not self.distinct and self._chosen:
            values &= self._chosen[-1]
        self._chosen.append(values)

    def drop(self) -> None:
        """Give back the last device."""
        self._chosen.pop()

    @property
    def state(self) -> Values | None:
        """The values that limit further picks; None while any value is possible.

        For distinctAttribute those in use, for matchAttribute those of which one must recur.
        """
        if self.distinct:
            return Values().union(*self._chosen)
        return self._chosen[-1] if self._chosen else None


def groups_of(device: Device, counter_set: str) -> CompatibilityGroups | None:
    """The device's compatibilityGroups on the counter set; None if it does not draw on it."""
    for consumption in device.consumes:
        if consumption.counter_set == counter_set:
            return CompatibilityGroups(consumption.compatibility_groups)
    return None


def are_compatible(groups: Iterable[CompatibilityGroups]) -> bool:
    """True if devices with these groups may be in use at the same time on one counter set (1.37).

    All of them must have one group in common. Devices without groups are compatible only with one another.
    """
    first, *others = groups
    common = first.intersection(*others)
    return bool(common) or not (first or any(others))
