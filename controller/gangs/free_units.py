"""Upper bounds for further units on places while a search puts units there."""

from collections.abc import Sequence
from typing import Final

from controller.gangs.search_context import SearchContext
from controller.gangs.units import UnitShape

_MOST_SHAPES: Final = 16
"""Most shapes for which the devices of other shapes are counted, because each unit that is put costs a look at all."""
_UNLIMITED: Final = 1 << 60


class FreeUnits:
    """Most further units of each shape on each place, besides the units that are there.

    Units of one shape count against their own shape. With several shapes, they also count against others by the number
    of their devices, except on places with shareable devices.
    """

    def __init__(self, context: SearchContext):
        self._own = {shape: list(bounds) for shape, bounds in context.counts.bounds.items()}
        self._free = self._own
        self._devices: list[int] = []
        """Devices that are left on each place; empty if they are not counted."""
        if context.devices is not None and len(self._own) <= _MOST_SHAPES:
            self._free = {shape: list(bounds) for shape, bounds in self._own.items()}
            self._devices = [_UNLIMITED if one.shareable else one.available for one in context.devices]

    def of(self, shape: UnitShape) -> Sequence[int]:
        """Most further units of the shape, by place."""
        return self._free[shape]

    def room(self, shape: UnitShape, places: Sequence[int]) -> int:
        """Most further units of the shape on these places."""
        free = self._free[shape]
        return sum([free[place] for place in places])

    def rooms_from(self, shape: UnitShape, order: Sequence[int]) -> Sequence[int]:
        """Most further units of the shape on the places from each position of the order on."""
        found, total = [0] * (len(order) + 1), 0
        free = self._free[shape]
        for at in range(len(order) - 1, -1, -1):
            total += free[order[at]]
            found[at] = total
        return found

    def put(self, shape: UnitShape, place: int, units: int) -> None:
        """Count units that were put on the place; a negative number for units that were taken back."""
        self._own[shape][place] -= units
        if self._devices:
            self._devices[place] -= units * shape.request.total_devices
            self._renew(place)

    def limit(self, shape: UnitShape, place: int, units: int) -> None:
        """Lower the bound of an empty place."""
        self._own[shape][place] = units
        if self._devices:
            self._renew(place)

    def _renew(self, place: int) -> None:
        for shape, own in self._own.items():
            devices = shape.request.total_devices
            self._free[shape][place] = min(own[place], self._devices[place] // devices) if devices else own[place]
