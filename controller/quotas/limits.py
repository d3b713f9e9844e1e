"""What quotas limit, and what allocations take of it: decodes ResourceQuotas, and prices allocations. Pure.

A whole card takes its memory and 100 cores, a partition what it publishes of both, and a share the capacity that it
consumes. Access for monitoring (``adminAccess``) takes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.kube.objects import object_key
from driver.limits import listed
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


_LONGEST: Final = 100
"""Characters of a value that a fault quotes."""
_MOST_LIMITS: Final = 64
"""Limits of ours in one quota; more are a fault."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The part of a ResourceQuota that is about memory and cores of cards."""

    key: str
    """``namespace/name``."""
    uid: str
    limits: Amounts = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """What is wrong with it, each with the field and the remedy. Such a quota allows nothing."""
    reported: Mapping[str, str] = field(default_factory=dict, compare=False)
    """``status.used`` as the API has it, by name without the driver's domain."""

    @property
    def namespace(self) -> str:
        """The namespace that it limits."""
        return self.key.partition("/")[0]

    @property
    def counts(self) -> bool:
        """True if the quota says something about memory or cores of cards, or if that is not known."""
        return bool(self.limits or self.faults)


def quota_from(obj: Object, names: Names) -> Quota:
    """Return the part of a ResourceQuota that is about cards. What is wrong with that is part of the answer.

    Raises:
        AttributeError, TypeError: the object has not the form of a ResourceQuota.
    """
    spec: Mapping[str, Any] = obj.get("spec") or {}
    hard: Mapping[str, Any] = spec.get("hard") or {}
    prefix = names.attribute("")
    ours = {name.removeprefix(prefix): value for name, value in sorted(hard.items()) if name.startswith(prefix)}
    limits: dict[str, int] = {}
    faults = [*_scope_faults(spec)] if ours else []
    if len(ours) > _MOST_LIMITS:
        faults.append(f"spec.hard: has {len(ours)} names of {names.driver}; write at most {_MOST_LIMITS}")
        ours = {}
    for name, value in ours.items():
        limit = _limit(name, value)
        if isinstance(limit, int):
            limits[name] = limit
        else:
            faults.append(f"spec.hard[{prefix}{name[:_LONGEST]}]: {limit}")
    used: Mapping[str, Any] = (obj.get("status") or {}).get("used") or {}
    reported = {name: str(used[prefix + name])[:_LONGEST] for name in limits if prefix + name in used}
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), limits, tuple(faults), reported)


def unreadable_quota(obj: Object, problem: str) -> Quota:
    """Return a ResourceQuota that cannot be decoded, and so may limit anything."""
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), {}, (f"cannot be decoded: {problem}",))


def _scope_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    remedy = "a quota of memory or cores of cards counts all claims of the namespace; put these names into a quota"
    for name in ("scopes", "scopeSelector"):
        if spec.get(name):
            yield f"spec.{name}: not supported; {remedy} without it"


def _limit(name: str, value: Any) -> int | str:
    """Return the limit in nano-units, or what is wrong with it."""
    measure, _, of_type = name.partition(".")
    if measure not in MEASURES or (name != measure and not of_type):
        return f"unknown; the names are {listed(MEASURES)}, and both with a type, such as memory.H100"
    try:
        limit = Quantity.parse(str(value)).nanos
    except (InvalidInput, ValueError):
        return f"not a quantity: {str(value)[:_LONGEST]}; write a number with an optional suffix, such as 320Gi"
    return limit if limit >= 0 else f"must not be negative: {str(value)[:_LONGEST]}"
