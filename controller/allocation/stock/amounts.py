"""How much of each capacity one allocation of a device takes. Amounts are nanos, the API's finest step.

The rules are those of ``capacity[..].requestPolicy`` (resource.k8s.io/v1): without a policy an unnamed capacity is
taken whole; with one, requests are rounded up to what it allows. Ranges mean what they say, fractions too: a step of
100m is a tenth (as with the gate DRAFractionalCapacityRange; without it kube-scheduler rounds min and step up to 1).
"""

from collections.abc import Mapping

from driver.model import Capacity, RequestPolicy
from driver.quantity import Quantity


def consumed(capacity: Capacity, requested: Quantity | None) -> Quantity | None:
    """What a request takes of a shareable device's capacity, or None where the policy does not allow it."""
    policy = capacity.policy
    if requested is None:
        return policy.default if policy and policy.default is not None else capacity.value
    if policy is None:
        return requested
    amount = _rounded(policy, requested)
    return None if amount is None or not _allowed(policy, amount) else amount


def _rounded(policy: RequestPolicy, requested: Quantity) -> Quantity | None:
    if policy.minimum is not None:
        return _round_to_range(policy, policy.minimum, requested)
    if policy.valid_values:
        return next((value for value in policy.valid_values if value >= requested), None)
    return requested


def _round_to_range(policy: RequestPolicy, minimum: Quantity, requested: Quantity) -> Quantity:
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


Amounts = Mapping[str, Quantity]


def take(capacities: Mapping[str, Capacity], requested: Amounts) -> Amounts | str:
    """What of every capacity of a shareable device is taken, or the name of the capacity it cannot give.

    Negative requests are never satisfied.
    """
    for name, amount in requested.items():
        if name not in capacities or amount.nanos < 0:
            return name
    result: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        amount_taken = consumed(capacity, requested.get(name))
        if amount_taken is None or amount_taken > capacity.value:
            return name
        result[name] = amount_taken
    return result


def lacking(capacities: Mapping[str, Capacity], requested: Amounts) -> str:
    """The name of the first capacity of a device (taken whole) that is missing or smaller than requested, or ""."""
    for name, amount in requested.items():
        if name not in capacities or amount > capacities[name].value or amount.nanos < 0:
            return name
    return ""
