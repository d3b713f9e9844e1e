"""Quotas of namespaces in memory and cores of cards: what each allows, and what allocations take of it. Pure.

A quota is an ordinary ResourceQuota with names of our domain in ``spec.hard``: ``<driver>/memory`` in bytes and
``<driver>/cores`` in percent of a card, and both for one type of card (``<driver>/memory.<type>``). A namespace without
such a quota has no limit, and costs nothing.

A whole card takes its memory and 100 cores, a partition what it publishes of both, and a share the capacity that it
consumes. Access for monitoring (``adminAccess``) takes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from controller.refusal import Refusal
from driver.errors import Fault, InvalidInput
from driver.kube.api import Object
from driver.kube.objects import object_key
from driver.limits import listed
from driver.model import Allocation, Claim, Device, DeviceId, Result
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
    faults: tuple[Fault, ...] = ()
    """What is wrong with it. Such a quota allows nothing."""
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
        faults.append(Fault("spec.hard", f"has {len(ours)} names of {names.driver}; write at most {_MOST_LIMITS}"))
        ours = {}
    for name, value in ours.items():
        limit = _limit(name, value)
        if isinstance(limit, int):
            limits[name] = limit
        else:
            faults.append(Fault(f"spec.hard[{prefix}{name[:_LONGEST]}]", limit))
    used: Mapping[str, Any] = (obj.get("status") or {}).get("used") or {}
    reported = {name: str(used[prefix + name])[:_LONGEST] for name in limits if prefix + name in used}
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), limits, tuple(faults), reported)


def unreadable_quota(obj: Object, problem: str) -> Quota:
    """Return a ResourceQuota that cannot be decoded, and so may limit anything."""
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), {}, (Fault("", f"cannot be decoded: {problem}"),))


def _scope_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    remedy = "a quota of memory or cores of cards counts all claims of the namespace; put these names into a quota"
    for name in ("scopes", "scopeSelector"):
        if spec.get(name):
            yield Fault(f"spec.{name}", f"not supported; {remedy} without it")


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


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One limit of a quota, and what is used of it (nano-units)."""

    quota: str
    """Key of the ResourceQuota."""
    name: str
    """As in ``spec.hard``."""
    used: int
    limit: int


class KeptChange(NamedTuple):
    """A change on trial: nothing is kept for a pod (key) any more, for which these allocations were."""

    pod: str
    allocations: Sequence[Allocation]


@dataclass(frozen=True, slots=True)
class Excess:
    """One limit that would be exceeded (nano-units)."""

    use: QuotaUse
    asked: int
    kept: int = 0
    """What is kept for pods that others are evicted for. It is not used yet."""

    def __str__(self) -> str:
        amounts = self.asked, self.use.used, self.kept, self.use.limit
        asked, used, kept, limit = (amount_text(self.use.name, it) for it in amounts)
        used = f"used {used}, kept for pods that others are evicted for {kept}" if self.kept else f"used {used}"
        return f"ResourceQuota {self.use.quota}, {self.use.name}: asked {asked}, {used}, limit {limit}"


QuotaRefusal = Refusal[Sequence[Excess]]
"""A namespace may not have some allocations: they would exceed these limits, or its quotas cannot be understood."""


def refusal_by(quotas: Iterable[Quota]) -> QuotaRefusal | None:
    """Return why nothing may be allocated in the namespace of these quotas; None if all of them can be understood."""
    faults = [replace(fault, key=one.key, kind="ResourceQuota") for one in quotas for fault in one.faults]
    return Refusal(faults[0].key.partition("/")[0], (), tuple(faults)) if faults else None


def render(refusal: QuotaRefusal) -> str:
    """Return why a namespace may not have some allocations, as text."""
    if refusal.faults:
        said = listed([str(fault) for fault in refusal.faults])
        return f"{said}; nothing is allocated in the namespace until that is corrected"
    return listed([str(excess) for excess in refusal.why])


@dataclass(slots=True)
class _Namespace:
    """A namespace with quotas."""

    quotas: dict[str, Quota] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    """By claim, those that are counted or are to be."""
    prices: dict[str, tuple[Allocation, Price]] = field(default_factory=dict)
    """By claim, what is counted for it, and for which allocation."""
    outdated: dict[str, None] = field(default_factory=dict)
    """Claims that are to be counted anew."""
    used: Counter[str] = field(default_factory=Counter)


class QuotaLedger:
    """The quotas of all namespaces, and what is used of them: the sum over claims, decisions being written included.

    Only namespaces with a quota of ours are counted.

    Args:
        find: finds a published device.
    """

    def __init__(self, names: Names, find: FindDevice):
        self._names = names
        self._find = find
        self._namespaces: dict[str, _Namespace] = {}
        self._kept: dict[str, dict[str, Sequence[Allocation]]] = {}
        """By namespace and pod, what is kept for pods that others are evicted for."""

    # Events

    def upsert(self, quota: Quota, claims: Iterable[Claim]) -> bool:
        """Add or replace a quota; return whether that changes what it allows.

        Args:
            claims: all claims, of which those of the namespace are counted if this is its first quota.
        """
        if not quota.counts:
            return self.remove(quota.key)
        known = self._namespaces.get(quota.namespace)
        if known is None:
            known = self._namespaces[quota.namespace] = _Namespace()
            for claim in claims:
                if claim.namespace == quota.namespace:
                    self.count(claim.key, claim.allocation)
        changed = known.quotas.get(quota.key) != quota
        known.quotas[quota.key] = quota
        return changed

    def remove(self, key: str) -> bool:
        """Remove a quota; return whether it was known."""
        namespace = key.partition("/")[0]
        known = self._namespaces.get(namespace)
        if known is None or known.quotas.pop(key, None) is None:
            return False
        if not known.quotas:
            del self._namespaces[namespace]
        return True

    def count(self, claim: str, allocation: Allocation | None) -> bool:
        """Count the claim (key) with this allocation, or no longer; return whether its namespace has a quota."""
        known = self._namespaces.get(claim.partition("/")[0])
        if known is None:
            return False
        if known.allocations.get(claim) != allocation:
            if allocation is None:
                del known.allocations[claim]
            else:
                known.allocations[claim] = allocation
            known.outdated[claim] = None
        return True

    def keep(self, pod: str, allocations: Sequence[Allocation]) -> None:
        """Keep this for a pod (key) that others are evicted for, in place of what was kept before; () ends that.

        The rest of its namespace may not have it. It is not among what is used.
        """
        namespace = pod.partition("/")[0]
        kept = self._kept.setdefault(namespace, {})
        kept.pop(pod, None)
        if allocations:
            kept[pod] = allocations
        elif not kept:
            del self._kept[namespace]

    # Changes on trial (``controller.cluster.WhatIf``)

    def kept(self, pod: str) -> Sequence[Allocation]:
        """Return what is kept for a pod (key)."""
        return self._kept.get(pod.partition("/")[0], {}).get(pod, ())

    def apply(self, change: KeptChange) -> None:
        """Make a change on trial."""
        self.keep(change.pod, ())

    def revert(self, change: KeptChange) -> None:
        """Undo a change on trial."""
        self.keep(change.pod, change.allocations)

    def published(self, claims: Iterable[str]) -> Iterator[str]:
        """Count claims anew whose devices were published anew; yield their namespaces, as far as they have quotas."""
        for claim in claims:
            known = self._namespaces.get(claim.partition("/")[0])
            if known is not None and claim in known.allocations:
                known.outdated[claim] = None
                yield claim.partition("/")[0]

    # Questions

    def limits(self, namespace: str) -> bool:
        """Return whether the namespace has a quota of memory or cores."""
        return namespace in self._namespaces

    def beyond(self, namespace: str, allocations: Iterable[Allocation]) -> QuotaRefusal | None:
        """Return why the namespace may not have these allocations beside what is used and kept; None if it may.

        The allocations are hypothetical or about to be promised: one that counts already would count twice.
        """
        known = self._namespaces.get(namespace)
        asked = self._amounts(allocations if known else ())
        if known is None or not asked:
            return None
        if faulty := refusal_by(known.quotas.values()):
            return faulty
        kept = self._amounts(one for some in self._kept.get(namespace, {}).values() for one in some)
        excesses = []
        for use in self.uses(namespace):
            name = use.name.removeprefix(self._names.attribute(""))
            if asked[name] and use.used + kept[name] + asked[name] > use.limit:
                excesses.append(Excess(use, asked[name], kept[name]))
        return Refusal(namespace, tuple(excesses)) if excesses else None

    def _amounts(self, allocations: Iterable[Allocation]) -> Counter[str]:
        amounts: Counter[str] = Counter()
        for allocation in allocations:
            amounts.update(price(allocation, self._find, self._names).amounts)
        return amounts

    def uses(self, namespace: str) -> Sequence[QuotaUse]:
        """Return each limit of the namespace and what is used of it, quota by quota, in order of names."""
        known = self._namespaces.get(namespace)
        if known is None:
            return ()
        self._settle(known)
        return [
            QuotaUse(key, self._names.attribute(name), known.used[name], limit)
            for key, quota in sorted(known.quotas.items())
            for name, limit in sorted(quota.limits.items())
        ]

    @property
    def namespaces(self) -> Sequence[str]:
        """Return the namespaces with a quota of memory or cores, sorted."""
        return sorted(self._namespaces)

    def unreported(self, namespace: str) -> Iterator[tuple[Quota, Mapping[str, str]]]:
        """Yield the quotas of a namespace whose ``status.used`` is not what is used, each with the values to write."""
        known = self._namespaces.get(namespace)
        uses = self.uses(namespace)
        for key, quota in sorted(known.quotas.items()) if known else ():
            right = {use.name: amount_text(use.name, use.used) for use in uses if use.quota == key}
            if right != {self._names.attribute(name): value for name, value in quota.reported.items()}:
                yield quota, right

    @property
    def invalid(self) -> Iterator[Quota]:
        """Yield the quotas with faults."""
        for known in self._namespaces.values():
            yield from (quota for quota in known.quotas.values() if quota.faults)

    def used(self, namespace: str) -> Mapping[str, int]:
        """Return what the claims of a namespace with quotas take (nano-units), by name without the driver's domain."""
        known = self._namespaces.get(namespace)
        if known is None:
            return {}
        self._settle(known)
        return dict(known.used)

    def _settle(self, known: _Namespace) -> None:
        for claim in known.outdated:
            before, allocation = known.prices.pop(claim, None), known.allocations.get(claim)
            if before is not None:
                known.used.subtract(before[1].amounts)
            if allocation is not None:
                after = price(allocation, self._find, self._names)
                if before is not None and before[0].results == allocation.results and not after.exact:
                    # Devices of it are published no longer. What it took of them, it still takes.
                    after = before[1]
                known.used.update(after.amounts)
                known.prices[claim] = allocation, after
        known.outdated.clear()


def amount_text(name: str, nanos: int) -> str:
    """Return an amount of a quota as text: bytes with binary suffixes, percent of a card as a number."""
    measure = name.rpartition("/")[2].partition(".")[0]
    return str(Quantity(nanos, "BinarySI" if measure == MEASURES[0] else "DecimalSI"))
