"""compatibilityGroups: which devices of one counter set may be in use at the same time (resource.k8s.io/v1, 1.37).

All devices in use on a counter set must have one group in common; those without groups go only with one another.
"""

from collections.abc import Iterable

from driver.model import Device

Groups = frozenset[str]


def groups_of(device: Device, counter_set: str) -> Groups | None:
    """The device's groups on the counter set; None if it does not draw on it."""
    for consumption in device.consumes:
        if consumption.counter_set == counter_set:
            return Groups(consumption.compatibility_groups)
    return None


def go_together(some: Iterable[Groups]) -> bool:
    """Whether devices with these groups may be in use together."""
    first, *others = some
    common = first.intersection(*others)
    return bool(common) or not (first or any(others))
