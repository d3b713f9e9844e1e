"""The quotas of each namespace, and what its allocated claims take, kept up to date change by change. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.quotas.limits import MEASURES, FindDevice, Price, Quota, price
from driver.limits import listed
from driver.model import Allocation, Claim
from driver.names import Names
from driver.quantity import Quantity


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


@dataclass(frozen=True, slots=True)
class Beyond:
    """The reason why allocations may not be made: they would exceed these limits."""

    excesses: tuple[Excess, ...]

    def __str__(self) -> str:
        return listed(tuple(map(str, self.excesses)))


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reason why nothing may be allocated in a namespace: these quotas cannot be understood."""

    quotas: tuple[Quota, ...]

    def __str__(self) -> str:
        said = tuple(f"ResourceQuota {quota.key}: {fault}" for quota in self.quotas for fault in quota.faults)
        return f"{listed(said)}; nothing is allocated in the namespace until that is corrected"


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

    def beyond(self, namespace: str, allocations: Iterable[Allocation]) -> Beyond | Unusable | None:
        """Return why the namespace may not have these allocations beside what is used and kept; None if it may.

        The allocations are hypothetical or about to be promised: one that counts already would count twice.
        """
        known = self._namespaces.get(namespace)
        asked = self._amounts(allocations if known else ())
        if known is None or not asked:
            return None
        if faulty := tuple(quota for quota in known.quotas.values() if quota.faults):
            return Unusable(faulty)
        kept = self._amounts(one for some in self._kept.get(namespace, {}).values() for one in some)
        excesses = []
        for use in self.uses(namespace):
            name = use.name.removeprefix(self._names.attribute(""))
            if asked[name] and use.used + kept[name] + asked[name] > use.limit:
                excesses.append(Excess(use, asked[name], kept[name]))
        return Beyond(tuple(excesses)) if excesses else None

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
