"""Selectors that Kubernetes 1.38 does not take any more, or that select other devices of the cluster there. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.upgrade.concerns import Concern, Severity
from driver.cel import (
    V1_37,
    V1_38,
    BudgetExceeded,
    CostBudget,
    DeviceView,
    KubernetesRelease,
    Selector,
    SelectorError,
    SelectorFault,
    compile_selector,
    scheduler,
    view,
)
from driver.cel.cost.steps import CHARACTER_STEPS
from driver.cel.estimation import check_admission
from driver.errors import SENSELESS, InvalidInput
from driver.kube.api import Object
from driver.wire import device_from

MOST_DEVICES: Final = 200
"""Devices that selectors are tried on. They differ in what selectors can tell apart, besides the values of texts."""
MOST_EXPRESSIONS: Final = 2000
"""Different expressions that are looked at."""
_STEPS: Final = 20_000
"""Steps of one evaluation (``driver.cel.CostBudget``); whoever needs more is not tried."""
_MOST_EFFORT: Final = 40_000_000
"""Steps of all evaluations, and of reading all expressions."""
_READINGS: Final = 4
"""How often an expression is read: as the API server and as kube-scheduler of each version."""
_FAULT: Final = "an error"


@dataclass(frozen=True, slots=True)
class _Tried:
    """A device that selectors are tried on, as each version sees it."""

    name: str
    old: DeviceView
    new: DeviceView


@dataclass(frozen=True, slots=True)
class _Verdict:
    refused: str = ""
    """Why 1.38 takes no new object with it; "" if it does, or 1.37 does not either."""
    unreadable: str = ""
    """Why kube-scheduler 1.38 cannot read it; "" if it can, or that of 1.37 cannot either."""
    differs: str = ""
    """A device for which the versions differ, with what they say; "" if none was found."""


class SelectorRules:
    """Looks at each expression once, whatever the number of objects that have it."""

    def __init__(self) -> None:
        self._kinds: set[object] = set()
        self._devices: list[_Tried] = []
        self._known: dict[str, _Verdict] = {}
        self._effort = 0
        self.left_out = 0
        """Expressions that were not looked at, because there are too many or they take too long."""

    def add(self, part: Object) -> None:
        """Take the devices of a slice, of each kind one."""
        driver = str(part["spec"]["driver"])
        for raw in part["spec"].get("devices") or ():
            if len(self._devices) >= MOST_DEVICES:
                return
            try:
                kind = driver, _kind(raw)
                if kind not in self._kinds:
                    self._devices.append(_tried(raw, driver))
                    self._kinds.add(kind)
            except (*SENSELESS, InvalidInput):
                continue  # no program can read this device

    def concerns(
        self, path: str, selectors: Iterable[Mapping[str, Any]], severity: Severity, outcome: str, remedy: str
    ) -> Iterator[Concern]:
        """All concerns about the selectors at a path.

        Args:
            severity, outcome: what it means that no new object may have such a selector.
        """
        for i, selector in enumerate(selectors):
            expression = (selector.get("cel") or {}).get("expression")
            if not isinstance(expression, str):
                continue
            where, verdict = f"{path}[{i}].cel.expression", self._verdict(expression)
            if verdict.refused:
                yield Concern(severity, where, verdict.refused, f"1.38 takes no such selector: {outcome}", remedy)
            if verdict.unreadable:
                reason = "kube-scheduler 1.38 cannot read it, and no device is selected"
                yield Concern("failed", where, verdict.unreadable, reason, remedy)
            if verdict.differs:
                reason = "it selects other devices of this cluster in 1.38"
                advice = "write the selector so that it reads only what every device says, and see that both agree"
                yield Concern("warning", where, verdict.differs, reason, advice)

    def _verdict(self, expression: str) -> _Verdict:
        known = self._known.get(expression)
        if known is None:
            if len(self._known) >= MOST_EXPRESSIONS or self._effort >= _MOST_EFFORT:
                self.left_out += 1
                return _Verdict()
            known = self._known[expression] = self._compared(expression)
        return known

    def _compared(self, expression: str) -> _Verdict:
        self._effort += _READINGS * len(expression) * CHARACTER_STEPS
        refused = _refused(expression)
        try:
            old = compile_selector(expression, scheduler(V1_37))
        except SelectorError:
            return _Verdict(refused)
        try:
            new = compile_selector(expression, scheduler(V1_38))
        except SelectorError as error:
            return _Verdict(refused, "" if error.unsupported else str(error))
        return _Verdict(refused, differs=self._differing(old, new))

    def _differing(self, old: Selector, new: Selector) -> str:
        """A device for which they differ; "" if none was found."""
        for device in self._devices:
            was, will = self._outcome(old, device.old), self._outcome(new, device.new)
            if was and will and was != will:
                return f"{device.name}: {was} in 1.37, {will} in 1.38"
        return ""

    def _outcome(self, selector: Selector, device: DeviceView) -> str:
        """What the selector says of the device; "" if that takes too long."""
        budget = CostBudget.of_steps(_STEPS)
        try:
            return str(selector.evaluate(device, budget)).lower()
        except BudgetExceeded:
            return ""
        except SelectorFault:
            return _FAULT
        finally:
            self._effort += selector.plain_steps + budget.effort


def _tried(raw: Object, driver: str) -> _Tried:
    device = device_from(raw, driver)
    old, new = (view(device, driver, release) for release in (V1_37, V1_38))
    return _Tried(f"device {device.name} of {driver}", old, new)


def _refused(expression: str) -> str:
    """Why the API server of 1.38 does not take the expression that one of 1.37 takes; "" if there is nothing."""
    problem = _problem(expression, V1_38)
    return problem if problem and not _problem(expression, V1_37) else ""


def _problem(expression: str, release: KubernetesRelease) -> str:
    try:
        check_admission(expression, release)
    except SelectorError as error:
        return "" if error.unsupported else str(error)
    return ""


def _kind(device: Object) -> tuple[object, ...]:
    """What selectors can tell of a device without the values of its texts and numbers."""
    attributes = device.get("attributes") or {}
    return (
        tuple(sorted((name, *map(_form, sorted(value.items()))) for name, value in attributes.items())),
        tuple(sorted(device.get("capacity") or {})),
        bool(device.get("allowMultipleAllocations")),
    )


def _form(value: tuple[str, Any]) -> tuple[str, str]:
    """The type of a value, and whether it is one that versions may read otherwise."""
    name, content = value
    return name, "+" if name.startswith("version") else str(bool(content))
