"""The compiled requests of a pod's claims: everything that follows from the claims and their classes alone."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.filters import MOST_CHARACTERS, CompiledSelectors, Filter
from controller.allocation.requests.demands import ClaimFault, Demand, RequestChoice, demands
from controller.allocation.requests.preferences import FIRST_FIT
from driver.bounded import BoundedCache, SizedCache
from driver.cache_key import cache_key
from driver.model import Claim, ClaimSpec, DeviceClass
from driver.names import Names

_MOST_REQUESTS: Final = 1024
_MOST_SPECS: Final = 4096


@dataclass(frozen=True, slots=True)
class MatchGroup:
    """Demands (by number) with one choice each, whose devices must all agree in an attribute."""

    attribute: str
    demands: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRequest:
    """The compiled request of a pod's claims. One object for all pods with equal requests.

    Attributes:
        demands: one for each request, in order.
        maskable: whether bitsets are sufficient to try it: no preference, no admin access, no request for all devices.
        single_choice: whether no request has alternatives.
        distinct: whether it has distinctAttribute constraints.
        filters: the filters of all choices, each once.
        attributes: the attributes that its constraints look at.
        match_groups: its matchAttribute constraints, as far as they concern demands with one choice.
        competing: demands with their own match group, where several demands have one for the same attribute.
        min_devices: available devices that one of its demands needs at once; 0 if none needs any.
        total_devices: available devices that all demands need together if none is shareable.
        ordered: whether a request prefers some devices or nodes to others.
    """

    demands: tuple[Demand, ...]
    maskable: bool
    single_choice: bool
    distinct: bool
    filters: tuple[Filter, ...]
    attributes: tuple[str, ...]
    match_groups: tuple[MatchGroup, ...]
    competing: tuple[MatchGroup, ...]
    min_devices: int
    total_devices: int
    ordered: bool

    @property
    def characters(self) -> int:
        """The length of the expressions of all filters."""
        return sum([wanted.characters for wanted in self.filters])

    @property
    def scored(self) -> bool:
        """True if one node can be better than another: there are alternatives or preferences."""
        return self.ordered or not self.single_choice


class CompiledRequests:
    """Compiles requests, once for all claims with equal requests."""

    def __init__(self, selectors: CompiledSelectors, names: Names):
        self._selectors = selectors
        self._names = names
        self._known: SizedCache[Hashable, CompiledRequest] = SizedCache(
            _MOST_REQUESTS, MOST_CHARACTERS, lambda _, request: request.characters
        )
        self._keys: BoundedCache[int, tuple[ClaimSpec, Hashable]] = BoundedCache(_MOST_SPECS)
        """Per identity of a spec, which is kept alive: the whole spec as a value."""

    def forget(self) -> None:
        """Forget everything, because a device class changed."""
        self._known.clear()

    def of(
        self, claims: Sequence[Claim], classes: Mapping[str, DeviceClass]
    ) -> CompiledRequest | tuple[ClaimFault, ...]:
        """The compiled request of these claims, or all their faults."""
        key = tuple([self.key(claim.spec) for claim in claims])
        known = self._known.get(key)
        if known is not None:
            return known
        wanted, faults = demands(claims, classes, self._selectors, self._names)
        if faults:
            return faults
        known = self._known[key] = compiled(wanted, [claim.spec for claim in claims])
        return known

    def key(self, spec: ClaimSpec) -> Hashable:
        """The whole spec as a value."""
        known = self._keys.get(id(spec))
        if known is None:
            known = self._keys[id(spec)] = (spec, cache_key(spec))
        return known[1]


def compiled(wanted: Sequence[Demand], specs: Sequence[ClaimSpec]) -> CompiledRequest:
    """The compiled request of the demands of claims with these specs."""
    every = [choice for demand in wanted for choice in demand.choices]
    match_groups = _match_groups(wanted, specs)
    constraints = [constraint for spec in specs for constraint in spec.constraints]
    needed = [min(_needed(choice) for choice in demand.choices) for demand in wanted]
    return CompiledRequest(
        demands=tuple(wanted),
        maskable=all(_maskable(choice) for choice in every),
        single_choice=all(len(demand.choices) == 1 for demand in wanted),
        distinct=any(constraint.distinct_attribute for constraint in constraints),
        filters=tuple(dict.fromkeys(choice.criteria.filter for choice in every)),
        attributes=tuple(dict.fromkeys(one.match_attribute or one.distinct_attribute for one in constraints)),
        match_groups=tuple(match_groups),
        competing=tuple(_competing(match_groups)),
        min_devices=max(needed, default=0),
        total_devices=sum(needed),
        ordered=any(choice.ordered for choice in every),
    )


def _maskable(choice: RequestChoice) -> bool:
    return choice.want.mode == "ExactCount" and not choice.want.admin_access and choice.preference == FIRST_FIT


def _needed(choice: RequestChoice) -> int:
    return 0 if choice.want.admin_access else choice.count


def _match_groups(wanted: Sequence[Demand], specs: Sequence[ClaimSpec]) -> Sequence[MatchGroup]:
    found: list[MatchGroup] = []
    for claim, spec in enumerate(specs):
        for number, constraint in enumerate(spec.constraints):
            bound = tuple([at for at, demand in enumerate(wanted) if _is_bound(demand, claim, number)])
            if bound and constraint.match_attribute:
                found.append(MatchGroup(constraint.match_attribute, bound))
    return found


def _is_bound(demand: Demand, claim: int, constraint: int) -> bool:
    choices = demand.choices
    return demand.claim == claim and len(choices) == 1 and constraint in choices[0].constraints


def _competing(match_groups: Sequence[MatchGroup]) -> Sequence[MatchGroup]:
    alone: dict[str, set[int]] = {}
    for group in match_groups:
        if len(group.demands) == 1:
            alone.setdefault(group.attribute, set()).update(group.demands)
    return [MatchGroup(attribute, tuple(sorted(bound))) for attribute, bound in alone.items() if len(bound) > 1]
