"""Claims as demands: each request with its alternatives, classes looked up, everything wrong with them named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.policies.preference import FIRST_FIT, Preference, Preferences
from controller.allocation.stock.matching import Filter, Matching
from controller.selectors import SelectorError
from driver.errors import Fault
from driver.model import Claim, Constraint, DeviceClass, Request, Want
from driver.names import Names

RESULTS_LIMIT: Final = 32
"""Devices one claim may hold (resource.k8s.io AllocationResultsMaxSize)."""
_NAMES: Final = Names()


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to satisfy a request: the want, its class and the selectors that all must hold."""

    name: str
    """As results name it: ``main`` or ``main/sub``."""
    want: Want
    device_class: DeviceClass
    filter: Filter
    constraints: tuple[int, ...]
    """Indices of the claim's constraints that it takes part in."""
    preference: Preference = FIRST_FIT


@dataclass(frozen=True, slots=True)
class Demand:
    """One request of one claim."""

    claim: int
    request: Request
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ClaimFault:
    """A claim that can be allocated nowhere as written: its author, or that of its device class, must change it."""

    claim: str
    """``namespace/name``."""
    fault: Fault

    def __str__(self) -> str:
        return f"claim {self.claim}: {self.fault}"


def demands(
    claims: Sequence[Claim], classes: Mapping[str, DeviceClass], matching: Matching, names: Names = _NAMES
) -> tuple[tuple[Demand, ...], tuple[ClaimFault, ...]]:
    """The demands of all claims, in order, and all faults of the claims; there are no demands if there are faults.

    Args:
        names: whose parameters are looked at in the config of claims and classes.
    """
    found: list[Demand] = []
    faults: list[ClaimFault] = []
    for index, claim in enumerate(claims):
        reader = _Reader(claim, index, classes, matching, names)
        found += reader.demands()
        faults += [ClaimFault(claim.key, fault) for fault in reader.faults]
    return (() if faults else tuple(found)), tuple(faults)


class _Reader:
    def __init__(self, claim: Claim, index: int, classes: Mapping[str, DeviceClass], matching: Matching, names: Names):
        self._claim = claim
        self._index = index
        self._classes = classes
        self._matching = matching
        self._preferences = Preferences(claim, names)
        self.faults: list[Fault] = list(self._preferences.faults)

    def demands(self) -> list[Demand]:
        for index, constraint in enumerate(self._claim.spec.constraints):
            if bool(constraint.match_attribute) == bool(constraint.distinct_attribute):
                path = f"spec.devices.constraints[{index}]"
                self._fault(path, "empty constraint (unsupported constraint type?): set one of its fields")
        found = [self._demand(i, request) for i, request in enumerate(self._claim.spec.requests)]
        least = sum(min((_least(choice.want) for choice in demand.choices), default=0) for demand in found)
        if least > RESULTS_LIMIT:
            self._fault("spec.devices.requests", f"{least} devices exceed the limit of {RESULTS_LIMIT}; ask for fewer")
        return found

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def _demand(self, index: int, request: Request) -> Demand:
        path = f"spec.devices.requests[{index}]"
        if not request.wants:
            self._fault(path, f"request {request.name!r} has neither exactly nor firstAvailable")
        choices: list[Choice] = []
        for position, want in enumerate(request.wants):
            inner = f"{path}.firstAvailable[{position}]" if request.prioritized else f"{path}.exactly"
            choices.append(self._choice(inner, request, want))
        return Demand(self._index, request, tuple(choices))

    def _choice(self, path: str, request: Request, want: Want) -> Choice:
        for field in want.unsupported:
            self._fault(f"{path}.{field}", "is not supported and would change what is asked for; remove it")
        if want.mode not in ("ExactCount", "All"):
            self._fault(f"{path}.allocationMode", f"unsupported mode {want.mode!r}; use ExactCount or All")
        if want.mode == "ExactCount" and want.count < 1:
            self._fault(f"{path}.count", f"{want.count} devices cannot be allocated; ask for at least 1")
        device_class = self._classes.get(want.device_class)
        if device_class is None:
            message = f"could not retrieve device class {want.device_class}: create it, or name another"
            self._fault(f"{path}.deviceClassName", message)
            device_class = DeviceClass(want.device_class)
        for number, expression in enumerate(device_class.selectors):
            self._compile(f"device class {device_class.name}: spec.selectors[{number}].cel.expression", expression)
        for number, expression in enumerate(want.selectors):
            self._compile(f"{path}.selectors[{number}].cel.expression", expression)
        name = f"{request.name}/{want.name}" if request.prioritized else request.name
        names = (request.name, name)
        applying = tuple(i for i, c in enumerate(self._claim.spec.constraints) if _applies(c, names))
        preference, faults = self._preferences.of(name, want, device_class, path)
        self.faults += faults
        return Choice(name, want, device_class, (device_class.selectors, want.selectors), applying, preference)

    def _compile(self, path: str, expression: str) -> None:
        try:
            self._matching.compile(expression)
        except SelectorError as error:
            self._fault(path, str(error))


def _applies(constraint: Constraint, names: tuple[str, ...]) -> bool:
    return not constraint.requests or any(name in constraint.requests for name in names)


def _least(want: Want) -> int:
    return want.count if want.mode == "ExactCount" else 1
