"""What an allocation takes of quotas. Pure.

A whole card takes its memory and 100 cores, a partition what it publishes of both, and a share the capacity that it
consumes. Access for monitoring (``adminAccess``) takes nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from driver.model import Allocation, Device, DeviceId, Result
from driver.names import Names
from driver.quantity import Quantity

MEASURES: Final = ("memory", "cores")
"""What quotas count, as capacities of devices are named: bytes, and percent of a card's compute."""
WHOLE_CARD: Final = Quantity.whole(100)
"""Cores of a device that publishes none."""

Amounts = Mapping[str, int]
"""Nano-units by name without the driver's domain: ``memory``, ``cores``, and both by type, such as ``cores.H100``."""
FindDevice = Callable[[DeviceId], Device | None]
"""Returns a device as it is published; None if no slice has it."""


@dataclass(frozen=True, slots=True)
class Price:
    """The amounts that an allocation takes."""

    amounts: Amounts
    exact: bool = True
    """False if a device is not published, so that only what the allocation itself says is counted."""


def price(allocation: Allocation, find: FindDevice, names: Names) -> Price:
    """Return what the allocation takes. Devices of other drivers take nothing."""
    amounts: Counter[str] = Counter()
    exact = True
    for result in allocation.results:
        if result.device.driver != names.driver or result.admin_access:
            continue
        device = find(result.device)
        exact &= device is not None
        kind = device.attributes.get(names.attribute("type")) if device else None
        for measure in MEASURES:
            if amount := taken(result, device, measure):
                amounts[measure] += amount
                if isinstance(kind, str) and kind:
                    amounts[f"{measure}.{kind}"] += amount
    return Price(dict(amounts), exact)


def taken(result: Result, device: Device | None, measure: str) -> int:
    """Return the nano-units that a result takes; ``device`` is its device as it is published, None if no slice has it.

    A device that is not published takes 100 cores and no memory. What is below 0 counts as 0.
    """
    if result.share_id:
        return max(0, result.consumed[measure].nanos) if measure in result.consumed else 0
    if device is not None and measure in device.capacity:
        return max(0, device.capacity[measure].value.nanos)
    return WHOLE_CARD.nanos if measure == "cores" else 0
