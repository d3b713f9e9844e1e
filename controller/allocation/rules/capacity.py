"""The consumption of each capacity by one allocation of a shareable device. Amounts are nanos, the API's finest step.

The rules are those of ``capacity[..].requestPolicy`` (resource.k8s.io/v1). Without a policy, a capacity that the
request does not name is consumed in full. With a policy, requests are rounded up to what it allows. Ranges may be
fractional: a step of 100m is a tenth (as with the feature gate DRAFractionalCapacityRange; without it kube-scheduler
rounds the minimum and the step up to 1).
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from driver.cache_key import cache_key
from driver.model import Capacity, ClaimSpec, RequestPolicy, unqualify
from driver.quantity import Quantity

Quantities = Mapping[str, Quantity]
_MEBI: Final = 1024**2
_MOST_GIBIBYTES: Final = 512
"""From here on, a number without a unit is taken for MiB: no device has so many GiB."""
NOT_SHAREABLE: Final = "memoryPercent"
"""Stands for the missing capacity if a request asks for per cent of the memory of a device that is not shareable."""


def consumed(capacity: Capacity, requested: Quantity | None) -> Quantity | None:
    """The consumption of one capacity; None if the policy does not allow the request."""
    policy = capacity.policy
    if requested is None:
        return policy.default if policy and policy.default is not None else capacity.value
    if policy is None:
        return requested
    amount = _rounded(policy, requested)
    return None if amount is None or not _allowed(policy, amount) else amount


def most(capacity: Capacity) -> Quantity:
    """The most that one allocation can consume of a capacity."""
    policy = capacity.policy or RequestPolicy()
    limits = [capacity.value, *policy.valid_values[-1:]]
    return min(limits if policy.maximum is None else [*limits, policy.maximum])


def _rounded(policy: RequestPolicy, requested: Quantity) -> Quantity | None:
    if policy.minimum is not None:
        return _rounded_to_range(policy, policy.minimum, requested)
    if policy.valid_values:
        return next((value for value in policy.valid_values if value >= requested), None)
    return requested


def _rounded_to_range(policy: RequestPolicy, minimum: Quantity, requested: Quantity) -> Quantity:
    if requested < minimum:
        return minimum
    if policy.step is None or policy.step.nanos <= 0:
        return requested
    steps = -(-(requested.nanos - minimum.nanos) // policy.step.nanos)
    return Quantity(minimum.nanos + steps * policy.step.nanos, policy.step.format)


def _allowed(policy: RequestPolicy, amount: Quantity) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    return policy.maximum is None or amount <= policy.maximum


def _share(capacities: Mapping[str, Capacity], requested: Quantities) -> Quantities | str:
    """The consumption of every capacity of a shareable device, or the first capacity that is insufficient.

    Negative requests are never satisfied, and nothing negative is taken of a capacity that is below 0.
    """
    for name, amount in requested.items():
        if name not in capacities or amount.nanos < 0:
            return name
    result: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        amount_taken = consumed(capacity, requested.get(name))
        if amount_taken is None or amount_taken > capacity.value or amount_taken.nanos < 0:
            return name
        result[name] = amount_taken
    return result


def _insufficient(capacities: Mapping[str, Capacity], requested: Quantities) -> str:
    """The first requested capacity that a whole device lacks or has too little of; "" if there is none."""
    for name, amount in requested.items():
        if name not in capacities or amount > capacities[name].value or amount.nanos < 0:
            return name
    return ""


def small_amounts(spec: ClaimSpec) -> Iterator[str]:
    """Requests for less memory than anybody means, which are allowed: a share of less than 1 MiB gets 1 MiB."""
    for request in spec.requests:
        for want in request.wants:
            for name, amount in want.capacity.items():
                if name.rpartition("/")[2] != "memory" or not 0 < amount.value < _MEBI:
                    continue
                unit = "Gi" if amount.value < _MOST_GIBIBYTES else "Mi"
                yield (
                    f"request {request.name}: memory {amount} is {amount.value} bytes; a unit may be missing, such as "
                    f"{amount.value}{unit}"
                )


class CapacityRequest:
    """The capacities that a request asks for of each device.

    Attributes:
        amounts: ``capacity.requests``, by name as it is written.
        memory_percent: memory in per cent of the device's, rounded up to whole units; 0 for none.
        is_empty: whether it asks for nothing.
        key: all of the above as a hashable value.
    """

    __slots__ = ("amounts", "is_empty", "key", "memory_percent")

    def __init__(self, amounts: Quantities, memory_percent: int = 0):
        self.amounts = amounts
        self.memory_percent = memory_percent
        self.is_empty = not amounts and not memory_percent
        self.key: Hashable = cache_key((amounts, memory_percent))

    def of_driver(self, driver: str) -> "CapacityRequest":
        """The request as devices of this driver see it: names in the driver's own domain lose it.

        An amount that is asked for by both spellings keeps the one with the domain, which no device has then.
        """
        if not any("/" in name for name in self.amounts):
            return self
        amounts: dict[str, Quantity] = {}
        for name, amount in self.amounts.items():
            short = unqualify(name, driver)
            amounts[name if short != name and short in self.amounts else short] = amount
        return CapacityRequest(amounts, self.memory_percent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CapacityRequest) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def consumption(
    shareable: bool, capacities: Mapping[str, Capacity], request: CapacityRequest
) -> Quantities | str | None:
    """The consumption of a request on a device that nothing else uses.

    Args:
        shareable: whether the device allows multiple allocations.

    Returns:
        The amount of each capacity for a share; None for the whole device; or the name of the first capacity that is
        missing or insufficient (``NOT_SHAREABLE`` for a percentage of a device that is not shareable).
    """
    if not shareable:
        return NOT_SHAREABLE if request.memory_percent else _insufficient(capacities, request.amounts) or None
    requested = request.amounts
    if request.memory_percent:
        memory = capacities.get("memory")
        total = memory.value if memory else Quantity(0)
        amount = Quantity.whole(-(-total.value * request.memory_percent // 100), total.format)
        requested = {**requested, "memory": amount}
    return _share(capacities, requested)
