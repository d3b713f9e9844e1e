"""The drivers that some selectors together can select: ours, others, or both. Pure."""

from collections.abc import Iterable
from enum import Enum


class Drivers(Enum):
    """The drivers that some selectors can select."""

    OURS = "only our driver"
    OTHERS = "only other drivers"
    BOTH = "our driver and others, as far as the text of the selectors tells"
    NONE = "no driver"


def drivers_of(can: Iterable[tuple[bool, bool]]) -> Drivers:
    """The drivers that all expressions can select, from the answer of ``driver.cel.can_select`` for each."""
    each = tuple(can)
    ours, others = all(ours for ours, _ in each), all(others for _, others in each)
    if ours:
        return Drivers.BOTH if others else Drivers.OURS
    return Drivers.OTHERS if others else Drivers.NONE
