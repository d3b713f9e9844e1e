"""matchAttribute and distinctAttribute, as devices are tried. A list-valued attribute is a set of values."""

from driver.model import Constraint, Device, Scalar

Values = frozenset[tuple[type, Scalar]]


def values_of(device: Device, attribute: str) -> Values:
    """The device's values of a fully qualified attribute; empty if it has none."""
    value = device.attributes.get(attribute, ())
    if isinstance(value, tuple):
        return frozenset((type(one), one) for one in value)
    return frozenset(((type(value), value),))


class Tracker:
    """The state of one constraint of one claim during a search."""

    __slots__ = ("_chosen", "attribute", "distinct")

    def __init__(self, constraint: Constraint):
        self.distinct = bool(constraint.distinct_attribute)
        self.attribute = constraint.distinct_attribute or constraint.match_attribute
        self._chosen: list[Values] = []

    def admits(self, device: Device) -> bool:
        """Whether the device may join those chosen so far."""
        values = values_of(device, self.attribute)
        if not values:
            return False
        if self.distinct:
            return not any(values & chosen for chosen in self._chosen)
        return not self._chosen or bool(values & self._chosen[-1])

    def add(self, device: Device) -> None:
        """Choose the device."""
        values = values_of(device, self.attribute)
        if not self.distinct and self._chosen:
            values &= self._chosen[-1]
        self._chosen.append(values)

    def drop(self) -> None:
        """Take back the last choice."""
        self._chosen.pop()

    @property
    def fixed(self) -> bool:
        """Whether a device has been chosen."""
        return bool(self._chosen)

    @property
    def state(self) -> Values | None:
        """What further choices depend on: values that may not, or of which one must recur; None for any."""
        if self.distinct:
            return Values().union(*self._chosen)
        return self._chosen[-1] if self._chosen else None
