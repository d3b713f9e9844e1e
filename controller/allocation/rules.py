"""The rules for the devices that may be picked: those of resource.k8s.io/v1, and the values that a pod has to have.

Amounts are nanos, the API's finest step.

**Capacity.** The rules are those of ``capacity[..].requestPolicy``. Without a policy, a capacity that the request does
not name is consumed in full. With a policy, requests are rounded up to what it allows. Ranges may be fractional: a step
of 100m is a tenth (as with the feature gate DRAFractionalCapacityRange; without it kube-scheduler rounds the minimum
and the step up to 1).

**Constraints.** matchAttribute, distinctAttribute and compatibilityGroups; and alignments, which are matchAttribute for
two claims of a pod. A list attribute is a set of values.

**Values of a pod.** A constraint compares devices of one claim. Pods that start together may have to agree in more:
each of them gets one card on rail 0 and one on rail 3, from whichever of its claims, of whatever driver. So the values
are said for a pod (``PodValues``), and a search counts them while it picks devices. With {0, 3} wanted and two devices
to be picked:

    pick    brings   missing   still to pick   may join next
    first   0        3         1               rail 3 only: after another rail 0, rail 3 could not come any more
    second  3        -         0               -

A device without the attribute, such as a network card, brings nothing and may join as long as enough are still to be
picked. A device with the value "" says that its value is not known, and may never join.

**Taints.** Those of slices and of DeviceTaintRules, and the tolerations of requests.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.cache_key import cache_key
from driver.model import (
    Alignment,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    Device,
    DeviceId,
    RequestPolicy,
    Scalar,
    Taint,
    TaintRule,
    Toleration,
    UnreadableValue,
    Version,
    unqualify,
)
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


def value_text(value: Scalar) -> str:
    """The value as text, as it stands in the path of a domain."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, Version) else str(value)


class ConstraintTracker:
    """The state of one constraint of one claim, or of an alignment, while devices are picked and given back."""

    __slots__ = ("_alignment", "_chosen", "attribute", "distinct")

    def __init__(self, constraint: Constraint | Alignment):
        self._alignment = constraint if isinstance(constraint, Alignment) else None
        self._chosen: list[Values] = []
        if isinstance(constraint, Alignment):
            self.distinct, self.attribute = False, constraint.attribute
            if constraint.values is not None:
                self._chosen.append(constraint.values)
        else:
            self.distinct = bool(constraint.distinct_attribute)
            self.attribute = constraint.distinct_attribute or constraint.match_attribute

    def admits(self, device: Device) -> bool:
        """True if the device may join the devices picked so far."""
        values = values_of(device, self.attribute)
        if not values:
            return False
        if self.distinct:
            return not any(values & chosen for chosen in self._chosen)
        return not self._chosen or bool(values & self._chosen[-1])

    def refusal(self, device: Device) -> str:
        """The constraint that keeps the device out, in words that begin with its kind."""
        if self._alignment is None:
            return f"{'distinctAttribute' if self.distinct else 'matchAttribute'} {self.attribute}"
        return f"alignWith {_not_aligned(self._alignment, values_of(device, self.attribute))}"

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


def _not_aligned(alignment: Alignment, values: Values) -> str:
    both, name = f"claims {' and '.join(alignment.entries)}", alignment.attribute
    if alignment.values is not None and not alignment.values:
        return f"not aligned: {both} have to share {name}, and the devices of {alignment.holder} have none in common"
    if not values:
        return f"without {name}, which {both} have to share"
    if alignment.values is None:
        return f"with another {name} than {both} can share"
    held = " or ".join(sorted(_written(value) for _, value in alignment.values))
    return f"with another {name} than {held} of claim {alignment.holder}, which {both} have to share"


def _written(value: Scalar) -> str:
    return value.text if isinstance(value, Version) else str(value).lower() if isinstance(value, bool) else str(value)


def alignments_of(claims: Sequence[Claim]) -> Sequence[tuple[Alignment, Mapping[int, int]]]:
    """The alignments that claims decided together must keep, each once.

    Each comes with its number among the constraints of each of the claims, by the claim's position, behind those of the
    spec. One with a claim that is neither among these nor allocated is left out.
    """
    if not any([claim.aligned for claim in claims]):
        return ()
    positions = {claim.uid: at for at, claim in enumerate(claims)}
    numbers = [len(claim.spec.constraints) for claim in claims]
    found: dict[Alignment, Mapping[int, int]] = {}
    for alignment in dict.fromkeys(one for claim in claims for one in claim.aligned if not one.preferred):
        bound = [positions[uid] for uid in alignment.claims if uid in positions]
        if len(bound) == 2 or (bound and alignment.values is not None):
            found[alignment] = {at: numbers[at] for at in bound}
            for at in bound:
                numbers[at] += 1
    return tuple(found.items())


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


Texts = frozenset[str]
"""Values of an attribute as texts (``value_text``)."""


@dataclass(frozen=True, slots=True)
class PodValues:
    """The values that the devices of one pod have to have together.

    Attributes:
        attribute: the qualified name.
        claims: the pod's claims, by their numbers in the question.
        exactly: the values, each of which some device has to bring; None for any values, of which there has to be one.
        distinct: whether no other pod of the question with the same attribute may have one of the pod's values.
        taken: values that no device may have.
        most: the most devices that the claims can get.
    """

    attribute: str
    claims: tuple[int, ...]
    exactly: Texts | None = None
    distinct: bool = False
    taken: Texts = frozenset()
    most: int = 0

    def admits(self, values: Texts) -> bool:
        """Whether a device with these values may join, whatever was picked before."""
        return not ("" in values or values & self.taken or (self.exactly is not None and not values <= self.exactly))


def texts_of(device: Device, attribute: str) -> Texts:
    """The device's values of the attribute as texts; empty if it has none, or one that cannot be read."""
    return frozenset([value_text(value) for _, value in values_of(device, attribute)])


class PodValuesTracker:
    """The values that one pod has while devices are picked and given back.

    Args:
        number: tells the pod from others.
        owners: for each value, how many devices each pod has with it; one object for all pods that have to differ.
    """

    __slots__ = ("_counts", "_left", "_number", "_owners", "rule")

    def __init__(self, rule: PodValues, number: int, owners: dict[str, Counter[int]]):
        self.rule = rule
        self._number = number
        self._owners = owners
        self._counts = Counter[str]()
        self._left = rule.most

    def admits(self, device: Device) -> bool:
        """Whether the device may join, so that what is still to be picked may bring all values that are missing."""
        values = texts_of(device, self.rule.attribute)
        if not self.rule.admits(values) or self._missing(values) >= self._left:
            return False
        return not self.rule.distinct or all(
            number == self._number or not count
            for value in values
            for number, count in self._owners.get(value, {}).items()
        )

    def add(self, device: Device) -> None:
        """Pick the device."""
        self._change(device, 1)

    def drop(self, device: Device) -> None:
        """Give the device back."""
        self._change(device, -1)

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not self._missing(frozenset())

    @property
    def state(self) -> Hashable:
        """Equal if the same may join from now on, as far as this pod is concerned."""
        return frozenset(value for value, count in self._counts.items() if count)

    def _missing(self, joining: Texts) -> int:
        if self.rule.exactly is None:
            return not joining and not any(self._counts.values())
        return sum([not self._counts[value] for value in self.rule.exactly - joining])

    def _change(self, device: Device, count: int) -> None:
        self._left -= count
        for value in texts_of(device, self.rule.attribute):
            self._counts[value] += count
            if self.rule.distinct:
                self._owners.setdefault(value, Counter())[self._number] += count


class PodValuesTrackers:
    """The trackers of one question, by claim.

    Args:
        claims: the number of claims of the question.
    """

    def __init__(self, rules: Sequence[PodValues], claims: int):
        owners: dict[str, dict[str, Counter[int]]] = {rule.attribute: {} for rule in rules}
        self._every = [PodValuesTracker(rule, number, owners[rule.attribute]) for number, rule in enumerate(rules)]
        self._of_claim: list[list[PodValuesTracker]] = [[] for _ in range(claims)]
        for tracker in self._every:
            for claim in tracker.rule.claims:
                self._of_claim[claim].append(tracker)

    def conflict(self, claim: int, device: Device) -> str:
        """The attribute whose values keep the device from joining for the claim; "" for none."""
        return next((one.rule.attribute for one in self._of_claim[claim] if not one.admits(device)), "")

    def add(self, claim: int, device: Device) -> None:
        """Pick the device for the claim."""
        for tracker in self._of_claim[claim]:
            tracker.add(device)

    def drop(self, claim: int, device: Device) -> None:
        """Give the device back."""
        for tracker in self._of_claim[claim]:
            tracker.drop(device)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes whose values count."""
        return frozenset([tracker.rule.attribute for tracker in self._every])

    @property
    def are_complete(self) -> bool:
        """Whether no value is missing for any pod."""
        return all([tracker.is_complete for tracker in self._every])

    @property
    def state(self) -> Hashable:
        """Equal if the same may join from now on."""
        return tuple([tracker.state for tracker in self._every])


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps the device from being allocated to a request with these tolerations, or None."""
    for taint in taints:
        if taint.excludes and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.operator == "Equal" and (toleration.key, toleration.value) == (taint.key, taint.value)


def applies(rule: TaintRule, device: DeviceId) -> bool:
    """True if the rule taints the device. A rule without a device selector taints nothing."""
    if not rule.selects:
        return False
    wanted = ((rule.driver, device.driver), (rule.pool, device.pool), (rule.device, device.device))
    return all(asked in ("", actual) for asked, actual in wanted)
