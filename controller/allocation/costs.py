"""Counts the steps of claims' selectors on the devices of the fleet, and refuses claims with too many.

`selectors` has the limits. The steps follow from the claims, their classes and the devices alone. So a refusal is
remembered until one of them changes.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller.allocation.devices.device_index import DeviceIndex
from controller.allocation.selectors import (
    CLAIM_STEPS,
    DEVICE_STEPS,
    FILTER_STEPS,
    POD_STEPS,
    STEPS_OF_EACH_DEVICE,
    CompiledSelectors,
    Filter,
    Meter,
    OutOfSteps,
    Turn,
)
from driver.bounded import BoundedCache
from driver.cel import SelectorError
from driver.cel.cost.steps import CHARACTER_STEPS
from driver.errors import Fault
from driver.model import Claim, DeviceClass, Want
from driver.names import Names
from driver.nvidia_dra import class_of

_MOST_CLAIMS: Final = 4096
_MOST_UNFINISHED: Final = 64
_FAR: Final = 4
"""If the limit is at least so many times the steps, the answer holds until there are twice as many devices."""
_REQUESTS: Final = "spec.devices.requests"


@dataclass(frozen=True, slots=True)
class _Cost:
    """The steps of one claim, and why they are too many; ``version`` and ``devices`` are those of the fleet."""

    version: int
    devices: int
    steps: int
    fault: Fault | None


@dataclass(slots=True)
class _Progress:
    """A claim that needs another turn: the filters that were counted, and the steps by expression."""

    version: int
    finished: set[Filter] = field(default_factory=set)
    steps: Counter[str] = field(default_factory=Counter)


class ClaimCosts:
    """Counts the steps of claims, once for all claims with equal requests."""

    def __init__(self, index: DeviceIndex, selectors: CompiledSelectors, names: Names):
        self._names = names
        self._index = index
        self._selectors = selectors
        self._costs: BoundedCache[Hashable, _Cost] = BoundedCache(_MOST_CLAIMS)
        self._unfinished: BoundedCache[Hashable, _Progress] = BoundedCache(_MOST_UNFINISHED)

    def forget(self) -> None:
        """Forget everything, because a device class changed."""
        self._costs.clear()
        self._unfinished.clear()

    def faults(
        self, claims: Sequence[Claim], keys: Sequence[Hashable], classes: Mapping[str, DeviceClass], turn: Turn
    ) -> tuple[Fault, ...]:
        """The faults of a pod's claims whose selectors take too many steps; none if the pod may be placed.

        Args:
            keys: one for each claim; claims with equal requests have equal keys.
            turn: pays for the evaluation.

        Raises:
            TurnEnded: the turn has no steps left; ask again in the next one.
        """
        faults = self.faults_of_each(claims, keys, classes, turn)
        steps = [self._cost(claim, key, classes, turn).steps for claim, key in zip(claims, keys, strict=True)]
        allowed = POD_STEPS + STEPS_OF_EACH_DEVICE * self._index.device_count
        if not faults and sum(steps) > allowed:
            dearest = claims[steps.index(max(steps))]
            return (Fault(_REQUESTS, self._too_much("pod", allowed), dearest.key),)
        return faults

    def faults_of_each(
        self, claims: Sequence[Claim], keys: Sequence[Hashable], classes: Mapping[str, DeviceClass], turn: Turn
    ) -> tuple[Fault, ...]:
        """As ``faults``, but each claim is judged alone: the limit of a pod does not apply.

        Raises:
            TurnEnded: as of ``faults``.
        """
        found = []
        for claim, key in zip(claims, keys, strict=True):
            fault = self._cost(claim, key, classes, turn).fault
            if fault:
                found.append(replace(fault, key=claim.key))
        return tuple(found)

    def _cost(self, claim: Claim, key: Hashable, classes: Mapping[str, DeviceClass], turn: Turn) -> _Cost:
        known = self._costs.get(key)
        if known is not None and self._holds(known):
            return known
        self._index.settle()
        progress = self._unfinished.get(key)
        if progress is None or progress.version != self._index.pools_version:
            progress = self._unfinished[key] = _Progress(self._index.pools_version)
        allowed = CLAIM_STEPS + STEPS_OF_EACH_DEVICE * self._index.device_count
        steps, fault = 0, None
        try:
            steps = self._measure(claim, classes, progress, allowed, turn)
        except OutOfSteps as error:
            steps, fault = allowed, self._fault(claim, classes, error, allowed)
        self._unfinished.pop(key, None)
        version, devices = self._index.pools_version, self._index.device_count
        found = self._costs[key] = _Cost(version, devices, steps, fault)
        return found

    def _holds(self, cost: _Cost) -> bool:
        if cost.fault is None and cost.steps * _FAR <= CLAIM_STEPS + STEPS_OF_EACH_DEVICE * cost.devices:
            return self._index.device_count <= 2 * max(cost.devices, 1)
        self._index.settle()
        return cost.version == self._index.pools_version

    def _measure(
        self, claim: Claim, classes: Mapping[str, DeviceClass], progress: _Progress, allowed: int, turn: Turn
    ) -> int:
        """The steps of the claim."""
        meter = Meter(allowed, turn)
        wants = [
            (class_of(want, classes, self._names), want) for request in claim.spec.requests for want in request.wants
        ]
        expressions = dict.fromkeys(
            expression
            for device_class, want in wants
            for expression in (*(device_class.selectors if device_class else ()), *want.selectors)
        )
        for expression in expressions:
            meter.count(expression, len(expression) * CHARACTER_STEPS)
        for expression in expressions:
            self._compile(expression, meter)
        for wanted in dict.fromkeys(self._filters(wants)):
            if wanted not in progress.finished:
                each = Meter(allowed - meter.steps, turn, progress.steps)
                each.count("", FILTER_STEPS)
                self._index.selectors.take(wanted, each)
                progress.finished.add(wanted)
                progress.steps = each.by_expression
        return meter.steps + progress.steps.total()

    def _compile(self, expression: str, meter: Meter) -> None:
        is_new = not self._selectors.is_compiled(expression)
        if is_new:
            meter.turn.go_on()
        steps = len(expression) * CHARACTER_STEPS
        try:
            selector = self._selectors.compile(expression)
            meter.count(expression, selector.compile_steps - steps)
            steps = selector.compile_steps
        except SelectorError:
            pass
        finally:
            if is_new:
                meter.turn.work(steps)

    def _filters(self, wants: Sequence[tuple[DeviceClass | None, Want]]) -> Iterator[Filter]:
        for device_class, want in wants:
            try:
                yield self._selectors.filter(device_class.selectors if device_class else (), want.selectors)
            except SelectorError:
                # It is a fault of the claim, too, which ``demands`` finds.
                continue

    # What is said

    def _fault(self, claim: Claim, classes: Mapping[str, DeviceClass], error: OutOfSteps, allowed: int) -> Fault:
        where = self._where(claim, classes, error.expression)
        if error.on_one_device:
            return Fault(
                where,
                f"takes more steps on one device than the limit of {DEVICE_STEPS}; simplify the expression: no loops "
                "inside of loops, and no long texts",
            )
        return Fault(where, self._too_much("claim", allowed))

    def _where(self, claim: Claim, classes: Mapping[str, DeviceClass], expression: str) -> str:
        """The field of the claim, or of a device class that it names, with the expression."""
        for index, request in enumerate(claim.spec.requests):
            for position, want in enumerate(request.wants):
                path = f"{_REQUESTS}[{index}].{f'firstAvailable[{position}]' if request.prioritized else 'exactly'}"
                if expression in want.selectors:
                    return f"{path}.selectors[{want.selectors.index(expression)}].cel.expression"
                device_class = class_of(want, classes, self._names)
                if device_class and expression in device_class.selectors:
                    number = device_class.selectors.index(expression)
                    return f"device class {device_class.name}: spec.selectors[{number}].cel.expression"
        return _REQUESTS

    def _too_much(self, whose: str, allowed: int) -> str:
        devices = self._index.device_count
        return (
            f"the selectors of the {whose} take more steps on {devices} {'device' if devices == 1 else 'devices'} than "
            f"the limit of {allowed}, and most of them here; use fewer, shorter or simpler expressions"
        )
