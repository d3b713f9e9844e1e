"""The requests of claims, compiled once for all pods with equal requests.

A **demand** is one request of one claim, with its alternatives and their classes. The **compiled request** of a pod's
claims is all their demands, and what follows from these alone. Claims that are written wrongly have faults instead.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.allocation.preferences import FIRST_FIT, Preference, Preferences
from controller.allocation.rules import CapacityRequest, PodValues, Values, alignments_of
from controller.allocation.selectors import MOST_CHARACTERS, CompiledSelectors, Filter
from driver.bounded import BoundedCache, SizedCache
from driver.cache_key import cache_key
from driver.cel import SelectorError
from driver.errors import Fault
from driver.model import Alignment, Claim, ClaimSpec, Constraint, DeviceClass, Request, Toleration, Want, unqualify
from driver.names import Names
from driver.nvidia_dra import asks_for_share, class_of
from driver.parameters import sharing_of

RESULTS_LIMIT: Final = 32
"""Devices that one claim may hold (resource.k8s.io AllocationResultsMaxSize)."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Everything that decides whether one device, by itself, is eligible for a request."""

    filter: Filter
    capacity: CapacityRequest
    tolerations: tuple[Toleration, ...] = ()
    admin_access: bool = False
    sharing: str = "none"
    """The sharing of a device of ours that is asked for (``driver.parameters.sharing_of``)."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestChoice:
    """One way to satisfy a request: ``exactly``, or one entry of ``firstAvailable``.

    Attributes:
        name: the name in results: ``main`` or ``main/sub``.
        count: the number of devices; the least number if it takes all.
        constraints: indices of the claim's constraints and alignments that it takes part in.
        match_attributes: the attributes in which its devices must agree.
        distinct_attributes: those in which they must differ.
        as_share: whether it wants a share, although its class names whole cards.
    """

    name: str
    want: Want
    device_class: DeviceClass
    criteria: Criteria
    constraints: tuple[int, ...] = ()
    match_attributes: tuple[str, ...] = ()
    distinct_attributes: tuple[str, ...] = ()
    preference: Preference = FIRST_FIT
    count: int = 1
    as_share: bool = False

    @property
    def takes_all(self) -> bool:
        """True if it takes all eligible devices (``allocationMode: All``)."""
        return self.want.mode == "All"

    @property
    def ordered(self) -> bool:
        """True if it prefers some devices or nodes to others."""
        return self.want.mode == "ExactCount" and self.preference.orders(self.want.count)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """One request of one claim (by its position among the pod's claims), with the ways to satisfy it in order."""

    claim: int
    request: Request
    choices: tuple[RequestChoice, ...]


def demands(
    claims: Sequence[Claim], classes: Mapping[str, DeviceClass], selectors: CompiledSelectors, names: Names
) -> tuple[tuple[Demand, ...], tuple[Fault, ...]]:
    """The demands of all claims, in order, and all faults of the claims. If there are faults, there are no demands.

    Args:
        names: the driver whose parameters are read in the config of claims and classes.
    """
    found: list[Demand] = []
    faults: list[Fault] = []
    aligned = alignments_of(claims)
    for index, claim in enumerate(claims):
        own = [alignment for alignment, numbers in aligned if index in numbers]
        reader = _Reader(claim, index, classes=classes, selectors=selectors, names=names, aligned=own)
        found += reader.demands()
        faults += [replace(fault, key=claim.key) for fault in reader.faults]
    return (() if faults else tuple(found)), tuple(faults)


class _Reader:
    """Reads one claim."""

    def __init__(
        self,
        claim: Claim,
        index: int,
        classes: Mapping[str, DeviceClass],
        selectors: CompiledSelectors,
        names: Names,
        aligned: Sequence[Alignment],
    ):
        self._claim = claim
        self._aligned = aligned
        self._index = index
        self._classes = classes
        self._selectors = selectors
        self._names = names
        self._preferences = Preferences(claim, names)
        self.faults: list[Fault] = list(self._preferences.faults)

    def demands(self) -> list[Demand]:
        for index, constraint in enumerate(self._claim.spec.constraints):
            if bool(constraint.match_attribute) == bool(constraint.distinct_attribute):
                path = f"spec.devices.constraints[{index}]"
                self._fault(path, "empty constraint (unsupported constraint type?): set one of its fields")
        found = [self._demand(index, request) for index, request in enumerate(self._claim.spec.requests)]
        least = sum(min((choice.count for choice in demand.choices), default=0) for demand in found)
        if least > RESULTS_LIMIT:
            self._fault("spec.devices.requests", f"{least} devices exceed the limit of {RESULTS_LIMIT}; ask for fewer")
        return found

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def _demand(self, index: int, request: Request) -> Demand:
        path = f"spec.devices.requests[{index}]"
        if not request.wants:
            self._fault(path, f"request {request.name!r} has neither exactly nor firstAvailable")
        choices: list[RequestChoice] = []
        for position, want in enumerate(request.wants):
            inner = f"{path}.firstAvailable[{position}]" if request.prioritized else f"{path}.exactly"
            choices.append(self._choice(inner, request, want))
        return Demand(self._index, request, tuple(choices))

    def _choice(self, path: str, request: Request, want: Want) -> RequestChoice:
        self._check(path, want)
        device_class = self._class(path, want)
        name = f"{request.name}/{want.name}" if request.prioritized else request.name
        applying = [
            (index, constraint)
            for index, constraint in enumerate(self._claim.spec.constraints)
            if _applies(constraint, (request.name, name))
        ]
        aligned = [
            (index, alignment)
            for index, alignment in enumerate(self._aligned, len(self._claim.spec.constraints))
            if _binds(alignment, self._claim, (request.name, name))
        ]
        wanted = self._filter(path, want, device_class)
        ours = self._selectors.may_select(wanted, self._names.driver)
        preference, faults = self._preferences.preference_of(name, want, device_class, path, ours=ours)
        self.faults += faults
        return RequestChoice(
            name,
            want,
            device_class=device_class,
            criteria=Criteria(
                wanted,
                CapacityRequest(want.capacity, preference.memory_percent),
                want.tolerations,
                want.admin_access,
                sharing_of((*device_class.config, *self._claim.spec.config), self._names, name),
            ),
            constraints=tuple([index for index, _ in (*applying, *aligned)]),
            match_attributes=(
                *[each.match_attribute for _, each in applying if each.match_attribute],
                *[alignment.attribute for _, alignment in aligned],
            ),
            distinct_attributes=tuple([each.distinct_attribute for _, each in applying if each.distinct_attribute]),
            preference=preference,
            count=want.count if want.mode == "ExactCount" else 1,
            as_share=asks_for_share(want, self._names),
        )

    def _check(self, path: str, want: Want) -> None:
        for field in want.unsupported:
            self._fault(f"{path}.{field}", "is not supported and would change what is asked for; remove it")
        if want.mode not in ("ExactCount", "All"):
            self._fault(f"{path}.allocationMode", f"unsupported mode {want.mode!r}; use ExactCount or All")
        if want.mode == "ExactCount" and want.count < 1:
            self._fault(f"{path}.count", f"{want.count} devices cannot be allocated; ask for at least 1")
        for name, amount in want.capacity.items():
            field, short = f"{path}.capacity.requests[{name}]", unqualify(name, self._names.driver)
            if amount.nanos < 0:
                self._fault(field, f"{amount} is below 0; ask for 0 or more")
            if short != name and short in want.capacity:
                self._fault(field, f"{amount} is asked for beside {want.capacity[short]} of {short}; say one of them")

    def _class(self, path: str, want: Want) -> DeviceClass:
        found = class_of(want, self._classes, self._names)
        if found is None:
            message = f"could not retrieve device class {want.device_class}: create it, or name another"
            self._fault(f"{path}.deviceClassName", message)
            found = DeviceClass(want.device_class)
        return found

    def _filter(self, path: str, want: Want, device_class: DeviceClass) -> Filter:
        """The filter of the class and the request; an empty filter if one does not compile, which is a fault."""
        sound = True
        for number, expression in enumerate(device_class.selectors):
            subject = f"device class {device_class.name}: spec.selectors[{number}].cel.expression"
            sound = self._compiles(subject, expression) and sound
        for number, expression in enumerate(want.selectors):
            sound = self._compiles(f"{path}.selectors[{number}].cel.expression", expression) and sound
        return self._selectors.filter(device_class.selectors, want.selectors) if sound else Filter((), (), ())

    def _compiles(self, path: str, expression: str) -> bool:
        try:
            self._selectors.compile(expression)
        except SelectorError as error:
            self._fault(path, str(error))
            return False
        return True


def _applies(constraint: Constraint, names: tuple[str, ...]) -> bool:
    return not constraint.requests or any(name in constraint.requests for name in names)


def _binds(alignment: Alignment, claim: Claim, names: tuple[str, ...]) -> bool:
    """Whether an alignment of the claim is for a request of these names: it names only requests of its first claim."""
    named = alignment.requests if alignment.claims[0] == claim.uid else ()
    return not named or any(name in named for name in names)


_MOST_REQUESTS: Final = 1024
_MOST_SPECS: Final = 4096


@dataclass(frozen=True, slots=True)
class MatchGroup:
    """Demands (by number) with one choice each, whose devices must all agree in an attribute.

    Attributes:
        values: the values that they can agree in; None for any.
    """

    attribute: str
    demands: tuple[int, ...]
    values: Values | None = None


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
        match_groups: its matchAttribute constraints and alignments, as far as they concern demands with one choice.
        competing: demands with their own match group, where several demands have one for the same attribute.
        min_devices: available devices that one of its demands needs at once; 0 if none needs any.
        total_devices: available devices that all demands need together if none is shareable.
        ordered: whether a request prefers some devices or nodes to others.
        pod_values: what the values of attributes have to be over all claims of a pod.
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
    pod_values: tuple[PodValues, ...] = ()

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

    def request_for(
        self, claims: Sequence[Claim], classes: Mapping[str, DeviceClass], pod_values: Sequence[PodValues] = ()
    ) -> CompiledRequest | tuple[Fault, ...]:
        """The compiled request of these claims, or all their faults."""
        key: Hashable = tuple([self.key(claim.spec) for claim in claims])
        if any([claim.aligned for claim in claims]):
            key = key, tuple(_alignments_key(claims))
        if pod_values:
            key = key, tuple(pod_values)
        known = self._known.get(key)
        if known is not None:
            return known
        if pod_values:
            found = self.request_for(claims, classes)
            if isinstance(found, CompiledRequest):
                found = self._known[key] = _with_values(found, pod_values)
            return found
        wanted, faults = demands(claims, classes, self._selectors, self._names)
        if faults:
            return faults
        known = self._known[key] = compiled(wanted, claims)
        return known

    def key(self, spec: ClaimSpec) -> Hashable:
        """The whole spec as a value."""
        known = self._keys.get(id(spec))
        if known is None:
            known = self._keys[id(spec)] = (spec, cache_key(spec))
        return known[1]


def _alignments_key(claims: Sequence[Claim]) -> Iterator[Hashable]:
    """The alignments of the claims as values: with the positions of claims in place of UIDs, and without names."""
    for alignment, numbers in alignments_of(claims):
        first = claims[next(iter(numbers))].uid == alignment.claims[0]
        values = None if alignment.values is None else cache_key(sorted(map(repr, alignment.values)))
        yield alignment.attribute, values, alignment.requests if first else (), tuple(numbers.items())


def compiled(wanted: Sequence[Demand], claims: Sequence[Claim]) -> CompiledRequest:
    """The compiled request of the demands of claims."""
    every = [choice for demand in wanted for choice in demand.choices]
    match_groups = _match_groups(wanted, claims)
    constraints = [constraint for claim in claims for constraint in claim.spec.constraints]
    compared = [one.match_attribute or one.distinct_attribute for one in constraints]
    compared += [alignment.attribute for alignment, _ in alignments_of(claims)]
    needed = [min(_needed(choice) for choice in demand.choices) for demand in wanted]
    return CompiledRequest(
        demands=tuple(wanted),
        maskable=all(_maskable(choice) for choice in every),
        single_choice=all(len(demand.choices) == 1 for demand in wanted),
        distinct=any(constraint.distinct_attribute for constraint in constraints),
        filters=tuple(dict.fromkeys(choice.criteria.filter for choice in every)),
        attributes=tuple(dict.fromkeys(compared)),
        match_groups=tuple(match_groups),
        competing=tuple(_competing(match_groups)),
        min_devices=max(needed, default=0),
        total_devices=sum(needed),
        ordered=any(choice.ordered for choice in every),
    )


def _with_values(request: CompiledRequest, pod_values: Sequence[PodValues]) -> CompiledRequest:
    most = Counter[int]()
    for demand in request.demands:
        most[demand.claim] += max(RESULTS_LIMIT if one.takes_all else one.count for one in demand.choices)
    rules = tuple([replace(rule, most=sum([most[claim] for claim in rule.claims])) for rule in pod_values])
    attributes = tuple(dict.fromkeys((*request.attributes, *(rule.attribute for rule in rules))))
    return replace(request, pod_values=rules, attributes=attributes)


def _maskable(choice: RequestChoice) -> bool:
    return choice.want.mode == "ExactCount" and not choice.want.admin_access and choice.preference == FIRST_FIT


def _needed(choice: RequestChoice) -> int:
    return 0 if choice.want.admin_access else choice.count


def _match_groups(wanted: Sequence[Demand], claims: Sequence[Claim]) -> Sequence[MatchGroup]:
    found: list[MatchGroup] = []
    for at, claim in enumerate(claims):
        for number, constraint in enumerate(claim.spec.constraints):
            bound = _bound(wanted, {at: number})
            if bound and constraint.match_attribute:
                found.append(MatchGroup(constraint.match_attribute, bound))
    for alignment, numbers in alignments_of(claims):
        if bound := _bound(wanted, numbers):
            found.append(MatchGroup(alignment.attribute, bound, alignment.values))
    return found


def _bound(wanted: Sequence[Demand], numbers: Mapping[int, int]) -> tuple[int, ...]:
    """The demands with one choice that a constraint binds, which has these numbers in claims."""
    return tuple([at for at, demand in enumerate(wanted) if _is_bound(demand, numbers.get(demand.claim))])


def _is_bound(demand: Demand, constraint: int | None) -> bool:
    choices = demand.choices
    return len(choices) == 1 and constraint in choices[0].constraints


def _competing(match_groups: Sequence[MatchGroup]) -> Sequence[MatchGroup]:
    alone: dict[str, set[int]] = {}
    for group in match_groups:
        if len(group.demands) == 1:
            alone.setdefault(group.attribute, set()).update(group.demands)
    return [MatchGroup(attribute, tuple(sorted(bound))) for attribute, bound in alone.items() if len(bound) > 1]
