"""One attempt to allocate the claims of a pod: picks candidates, undoes picks, and counts the amounts left."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.requests import Demand, RequestChoice
from controller.allocation.rules import (
    ConstraintTracker,
    PodValues,
    PodValuesTrackers,
    Quantities,
    alignments_of,
    are_compatible,
    groups_of,
)
from driver.cel import SelectorFault
from driver.model import Allocation, Claim, NodeRequirement, NodeSelector, NodeSelectorTerm, OpaqueConfig, Result
from driver.wire import only_node

UNLIMITED: Final = 1 << 20
"""The number of shares of a device without a capacity that they use up."""
NO_CAPACITY: Final = "capacity taken by other requests"
"""The conflict of a share with shares of the same attempt (``Attempt.beside`` has the amounts)."""
_SHARE_IDS: Final = uuid.UUID("5f0c3fb4-6b9b-4c1c-9c3c-0d1d5b2a7e10")
"""Namespace of share ids: the same decision for the same claim gives the same ids."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that is eligible for a choice, with its consumption; or one on which a selector fails."""

    device: PoolDevice
    consumes: Quantities | None = None
    """Per capacity, for a share; None for the whole device."""
    fault: SelectorFault | None = None


def fault_on(choice: RequestChoice, candidate: Candidate) -> SelectorFault:
    """The fault of a selector on a device that a search has to visit for the choice, to be raised."""
    # Another object each time: the candidate outlives the search, and must not keep what the search looked at.
    return SelectorFault(f"{choice.name} on {candidate.device.id.device}: {candidate.fault}")


@dataclass(frozen=True, slots=True)
class Pick:
    """A device picked for a request of the claim with this number."""

    claim: int
    choice: RequestChoice
    candidate: Candidate


@dataclass(slots=True)
class AttemptUse:
    """The use of one device by an attempt."""

    whole: bool = False
    shares: int = 0
    sharing: str = ""
    """The sharing of the shares, while there are any."""
    consumed: dict[str, int] = field(default_factory=dict)
    """Per capacity, nanos."""
    claims: dict[int, int] = field(default_factory=dict)
    """Picks by claim, those with admin access too: a claim gets a device only once, except as shares."""

    @property
    def consuming(self) -> bool:
        """True if anything but admin access uses the device."""
        return self.whole or self.shares > 0


class Attempt:
    """Devices picked for the claims of a pod, on top of what is in use. ``pick`` and ``undo`` nest.

    Args:
        pod_values: what the values of attributes have to be over all claims of a pod.

    Attributes:
        trackers: per claim, its constraints, and behind them its alignments, which two claims have in common.
        pod_values: the values that pods have so far; None if nothing is said about any.
        used: the use of each device by the attempt.
        counts: the number of devices per claim.
        picks: the picks in order.
    """

    def __init__(self, claims: Sequence[Claim], pod_values: Sequence[PodValues] = ()):
        self.pod_values = PodValuesTrackers(pod_values, len(claims)) if pod_values else None
        self.trackers = [[ConstraintTracker(constraint) for constraint in claim.spec.constraints] for claim in claims]
        if any([claim.aligned for claim in claims]):
            for alignment, numbers in alignments_of(claims):
                tracker = ConstraintTracker(alignment)
                for at in numbers:
                    self.trackers[at].append(tracker)
        self.used: dict[PoolDevice, AttemptUse] = {}
        self.counts = [0] * len(claims)
        self.picks: list[Pick] = []
        self._free: dict[Pool, list[int]] = {}

    def conflict(self, claim: int, choice: RequestChoice, candidate: Candidate) -> str:
        """The reason why the candidate cannot be picked after the picks so far; "" if it can."""
        device = candidate.device
        used = self.used.get(device)
        if used is not None and (reason := _conflict(claim, choice, candidate, used)):
            return reason
        # Counters are drawn on by the device, not by its holders: a device that anybody uses has drawn them already,
        # and its further shares draw nothing.
        drawing = not choice.want.admin_access and not device.use.holders and not (used and used.consuming)
        if drawing and device.draws and self._lacks_counters(device):
            return "counters taken by other requests"
        if drawing and device.pool.compatibility_sets and not self._is_compatible(device):
            return "of other compatibilityGroups than devices in use"
        for number in choice.constraints:
            tracker = self.trackers[claim][number]
            if not tracker.admits(device.spec):
                return tracker.refusal(device.spec)
        if self.pod_values and (attribute := self.pod_values.conflict(claim, device.spec)):
            return f"values of {attribute}"
        return ""

    @property
    def has_all_values(self) -> bool:
        """Whether every pod has all values that it has to have."""
        return self.pod_values is None or self.pod_values.are_complete

    def skips(self, claim: int, choice: RequestChoice, device: PoolDevice) -> bool:
        """True if the device is not visited, because the attempt uses it. Then no selector can fail on it."""
        used = self.used.get(device)
        if used is None or device.spec.allow_multiple or choice.want.mode != "ExactCount":
            return False
        return bool(used.claims.get(claim)) or (used.whole and not choice.want.admin_access)

    def remaining(self, device: PoolDevice, capacity: str) -> int:
        """The amount left of a capacity of a shareable device (nanos)."""
        used = self.used.get(device)
        consumed = device.use.consumed.get(capacity, 0) + (used.consumed.get(capacity, 0) if used else 0)
        return device.spec.capacity[capacity].value.nanos - consumed

    def shares(self, device: PoolDevice, consumes: Quantities | None) -> int:
        """The number of times the device could be picked now without admin access; at most once as a whole."""
        used = self.used.get(device)
        # As ``conflict``, but as a number, and without constraints, sharing and claims, which bounds count by
        # themselves or leave out.
        begun = used is not None and used.consuming
        if begun and (consumes is None or (used is not None and used.whole)):
            return 0
        if not begun and not device.use.holders and (self._lacks_counters(device) or not self._is_compatible(device)):
            return 0
        if consumes is None:
            return 1
        fits = [self.remaining(device, name) // amount.nanos for name, amount in consumes.items() if amount.nanos > 0]
        return max(0, min(fits, default=UNLIMITED))

    def pick(self, claim: int, choice: RequestChoice, candidate: Candidate) -> None:
        """Pick the candidate, which must have no conflict."""
        device = candidate.device
        self.counts[claim] += 1
        self.picks.append(Pick(claim, choice, candidate))
        for number in choice.constraints:
            self.trackers[claim][number].add(device.spec)
        if self.pod_values:
            self.pod_values.add(claim, device.spec)
        used = self.used.get(device)
        if used is None:
            used = self.used[device] = AttemptUse()
        used.claims[claim] = used.claims.get(claim, 0) + 1
        if choice.want.admin_access:
            return
        # The first use draws. It must be asked before the use is recorded, and in ``undo`` after it is taken back.
        if not used.consuming and not device.use.holders:
            self._draw(device, -1)
        if candidate.consumes is None:
            used.whole = True
            return
        used.shares += 1
        used.sharing = choice.criteria.sharing
        for name, amount in candidate.consumes.items():
            used.consumed[name] = used.consumed.get(name, 0) + amount.nanos

    def undo(self) -> None:
        """Undo the last pick."""
        pick = self.picks.pop()
        device, consumes = pick.candidate.device, pick.candidate.consumes
        self.counts[pick.claim] -= 1
        for number in pick.choice.constraints:
            self.trackers[pick.claim][number].drop()
        if self.pod_values:
            self.pod_values.drop(pick.claim, device.spec)
        used = self.used[device]
        used.claims[pick.claim] -= 1
        if not pick.choice.want.admin_access:
            for name, amount in (consumes or {}).items():
                used.consumed[name] -= amount.nanos
            used.shares -= consumes is not None
            # It was False already if the pick was a share. A device that is used as a whole has no other pick but for
            # monitoring.
            used.whole = False
            if not used.consuming and not device.use.holders:
                self._draw(device, 1)
        if not any(used.claims.values()):
            del self.used[device]

    def free(self, pool: Pool) -> Sequence[int]:
        """The amounts of the pool's counters that allocations and the attempt leave, nanos."""
        return self._free.get(pool, pool.free)

    def consumed(self, device: PoolDevice) -> Mapping[str, int]:
        """The amounts of a shareable device's capacities that allocations and the attempt consume, nanos."""
        used = self.used.get(device)
        if used is None or not used.consumed:
            return device.use.consumed
        return Counter(device.use.consumed) + Counter(used.consumed)

    def beside(self, device: PoolDevice, consumes: Quantities) -> str:
        """What a share of the device lacks beside the picks so far, with the amounts; "" if it lacks no capacity."""
        picked = self.used[device].consumed if device in self.used else {}
        for name, amount in consumes.items():
            there, held = device.spec.capacity[name].value, device.use.consumed.get(name, 0)
            together = replace(amount, nanos=amount.nanos + picked.get(name, 0))
            if held + together.nanos > there.nanos:
                used = f", {replace(there, nanos=held)} in use" if held else ""
                return f"with too little {name} for these requests together ({together} wanted, {there} there{used})"
        return ""

    def _lacks_counters(self, device: PoolDevice) -> bool:
        free = self._free.get(device.pool, device.pool.free)
        return any(free[index] < amount for index, amount in device.draws)

    def _is_compatible(self, device: PoolDevice) -> bool:
        """True if the device is compatible with all devices in use on its counter sets."""
        pool = device.pool
        sets = [used.counter_set for used in device.spec.consumes if used.counter_set in pool.compatibility_sets]
        if not sets:
            return True
        # All must have one group in common, so comparing pairs would not do: xy, yz and xz agree two by two.
        others = [pool.devices[index] for index in bits(pool.used)]
        others += [other for other, used in self.used.items() if other.pool is pool and used.consuming]
        for name in sets:
            found = [groups_of(other.spec, name) for other in (device, *others)]
            if not are_compatible(groups for groups in found if groups is not None):
                return False
        return True

    def _draw(self, device: PoolDevice, sign: int) -> None:
        if device.draws:
            # Pools stay as they are while devices are tried: an attempt has its own copy of the counters it draws on
            # (``test_questions_leave_the_devices_and_pools_they_are_about_as_they_were``).
            free = self._free.get(device.pool)
            if free is None:
                free = self._free[device.pool] = list(device.pool.free)
            for index, amount in device.draws:
                free[index] += sign * amount


def _conflict(claim: int, choice: RequestChoice, candidate: Candidate, used: AttemptUse) -> str:
    """The reason why a device that the attempt uses already cannot be picked again; "" if it can."""
    shared = candidate.consumes is not None
    if not shared and used.claims.get(claim):
        return "taken by another request"
    if choice.want.admin_access:
        return ""
    if used.whole or (used.shares and not shared):
        return "taken by another request"
    if used.shares and used.sharing != choice.criteria.sharing:
        return f"shared with {used.sharing} by other requests"
    if candidate.consumes is not None and not _fits(candidate.device, used, candidate.consumes):
        return NO_CAPACITY
    return ""


def _fits(device: PoolDevice, used: AttemptUse, consumes: Quantities) -> bool:
    allocated = device.use.consumed
    return all(
        allocated.get(name, 0) + used.consumed.get(name, 0) + amount.nanos <= device.spec.capacity[name].value.nanos
        for name, amount in consumes.items()
    )


# What the API stores of the picks


def allocations(claims: Sequence[Claim], picks: Sequence[Pick], node_name: str) -> tuple[Allocation, ...]:
    """The allocation of each claim, in order. The writer sets ``timestamp``."""
    if len(claims) == 1:
        return (_allocation(claims[0], picks, node_name),)
    return tuple(
        _allocation(claim, [pick for pick in picks if pick.claim == index], node_name)
        for index, claim in enumerate(claims)
    )


def _allocation(claim: Claim, picks: Sequence[Pick], node_name: str) -> Allocation:
    return Allocation(
        results=tuple([_result(claim, pick, ordinal) for ordinal, pick in enumerate(picks)]),
        config=_config(claim, picks),
        nodes=_nodes(picks, node_name),
    )


def _result(claim: Claim, pick: Pick, ordinal: int) -> Result:
    want, device, consumes = pick.choice.want, pick.candidate.device, pick.candidate.consumes
    share = ""
    if consumes is not None:
        share = str(uuid.uuid5(_SHARE_IDS, f"{claim.uid}/{pick.choice.name}/{device.id}/{ordinal}"))
    return Result(
        request=pick.choice.name,
        device=device.id,
        share_id=share,
        consumed=consumes or {},
        admin_access=want.admin_access,
        tolerations=want.tolerations,
        binding_conditions=device.spec.binding_conditions,
        binding_failure_conditions=device.spec.binding_failure_conditions,
        skip_node_operations=device.slice.skip_node_operations,
        qualified=frozenset(name for name in consumes or () if device.spec.capacity[name].qualified),
    )


def _config(claim: Claim, picks: Sequence[Pick]) -> tuple[OpaqueConfig, ...]:
    """The config of the classes used, then the claim's; ``requests`` is empty where an entry is for all of them.

    An entry that cannot be read is left out: it is for another driver, without devices in the allocation.
    """
    chosen = {pick.choice.name: pick.choice for pick in picks}
    by_class: dict[str, list[str]] = {}
    for name, choice in chosen.items():
        by_class.setdefault(choice.device_class.name, []).append(name)
    classes: Mapping[str, Sequence[OpaqueConfig]] = {
        choice.device_class.name: choice.device_class.config for choice in chosen.values()
    }
    entries = [
        replace(entry, source="FromClass", requests=() if len(names) == len(chosen) else tuple(names))
        for name, names in by_class.items()
        for entry in classes[name]
        if not entry.problem
    ]
    for entry in claim.spec.config:
        names = [name for name in chosen if _covers(entry.requests, name)]
        if names and not entry.problem:
            requests = entry.requests if len(names) < len(chosen) else ()
            entries.append(replace(entry, source="FromClaim", requests=requests))
    return tuple(entries)


def _covers(requests: Sequence[str], name: str) -> bool:
    return not requests or name in requests or name.split("/")[0] in requests


def _nodes(picks: Sequence[Pick], node_name: str) -> NodeSelector | None:
    """The nodes that can use the devices: one node, the nodes that all slices select, or None for any."""
    if any(pick.candidate.device.node_local for pick in picks):
        return only_node(node_name)
    selectors = [selector for pick in picks if (selector := pick.candidate.device.scope.selector) is not None]
    # A pool with a selector of several terms is not usable.
    terms = [term for selector in selectors for term in selector.terms]
    expressions = _distinct([requirement for term in terms for requirement in term.expressions])
    fields = _distinct([requirement for term in terms for requirement in term.fields])
    return NodeSelector((NodeSelectorTerm(expressions, fields),)) if expressions or fields else None


def _distinct(requirements: Sequence[NodeRequirement]) -> tuple[NodeRequirement, ...]:
    """Each requirement once, whatever the order of its values."""
    found: dict[object, NodeRequirement] = {}
    for requirement in requirements:
        found.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Option:
    """A choice with its candidates in order; it takes ``wanted`` of them."""

    choice: RequestChoice
    candidates: tuple[Candidate, ...]
    wanted: int


@dataclass(frozen=True, slots=True)
class Task:
    """A demand with its options. Options that cannot be satisfied even alone are left out."""

    demand: Demand
    options: tuple[Option, ...]
