"""The eligibility of one device, by itself, for a request, and the consumption of the request."""

from controller.allocation.devices.columns import Columns
from controller.allocation.devices.pools import PoolDevice
from controller.allocation.reasons.unsatisfiable import Cause
from controller.allocation.requests.demands import Criteria
from controller.allocation.rules.capacity import NOT_SHAREABLE, Quantities, most
from controller.allocation.rules.taints import untolerated
from driver.cel import suggest


def consumption_of(device: PoolDevice, criteria: Criteria, columns: Columns) -> Quantities | str | None:
    """The consumption of a request, or the capacity that the device lacks (``rules.capacity.consumption``)."""
    if criteria.capacity.is_empty and not device.spec.allow_multiple:
        return None
    return columns.consumed(device.pool, criteria.capacity, 1 << device.index)[1][device.index]


def insufficiency(device: PoolDevice, criteria: Criteria, columns: Columns) -> Cause | None:
    """The capacity that never suffices for the request, and the most for one claim; None if there is none."""
    lacking = consumption_of(device, criteria, columns)
    if not isinstance(lacking, str):
        return None
    if lacking == NOT_SHAREABLE:
        return "capacity", lacking
    known = device.spec.capacity.get(lacking)
    if known is None:
        return "noCapacity", lacking + suggest(lacking, sorted(device.spec.capacity))
    return "capacity", f"{lacking}: at most {most(known)}"


def is_exhausted(device: PoolDevice, criteria: Criteria) -> bool:
    """True if the device is in use and nobody else can get a part of it."""
    use = device.use
    return not criteria.admin_access and bool(use.exclusive or (use.shares and not device.spec.allow_multiple))


def obstacle(device: PoolDevice, criteria: Criteria, consumes: Quantities | None) -> Cause | None:
    """The reason why the device is not available now, or None. Admin access needs nothing but tolerated taints."""
    if device.taints and (taint := untolerated(device.taints, criteria.tolerations)) is not None:
        return "taint", f"{taint.key}={taint.value}:{taint.effect}"
    if criteria.admin_access:
        return None
    if is_exhausted(device, criteria):
        return "inUse", ""
    use = device.use
    if consumes is not None and use.shares:
        if other := use.excludes(criteria.sharing):
            return "sharing", other
        for name, amount in consumes.items():
            if use.consumed.get(name, 0) + amount.nanos > device.spec.capacity[name].value.nanos:
                return "capacityLeft", name
    if device.draws and not use.holders:
        free = device.pool.free
        for index, drawn in device.draws:
            if free[index] < drawn:
                return "counter", device.pool.counters[index].counter
    return None
