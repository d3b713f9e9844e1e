"""What Kubernetes 1.38 refuses, warns of or reads otherwise in claims, slices, classes and taint rules. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
from driver.kube.objects import object_key
from driver.limits import MAX_CAPACITY_REQUESTS, is_qualified_name
from driver.model import qualify
from driver.quantity import NANO, Quantity
from driver.semver import MAX_DIGITS, numbers_fit
from driver.wire import device_from

MOST_DEVICES: Final = 200
"""Devices that selectors are tried on. They differ in what selectors can tell apart, besides the values of texts."""
MOST_EXPRESSIONS: Final = 2000
"""Different expressions that are looked at."""
_STEPS: Final = 20_000
"""Steps of one evaluation (``driver.cel.CostBudget``); whoever needs more is not tried."""
_MOST_STEPS: Final = 40_000_000
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
        self._steps = 0
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
            if len(self._known) >= MOST_EXPRESSIONS or self._steps >= _MOST_STEPS:
                self.left_out += 1
                return _Verdict()
            known = self._known[expression] = self._compared(expression)
        return known

    def _compared(self, expression: str) -> _Verdict:
        self._steps += _READINGS * len(expression) * CHARACTER_STEPS
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
            self._steps += selector.plain_steps + budget.steps


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


MOST_NAMES: Final = 10_000
"""Drivers, and names of attributes, that are remembered."""
REFUSED: Final = "1.38 refuses every change of the devices of this slice, with this one or without"


@dataclass(slots=True)
class Published:
    """What slices say that matters for claims."""

    drivers: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    """Qualified names of attributes, with versions that have build metadata."""

    def add(self, part: Object) -> None:
        """Take what a slice says."""
        spec = part["spec"]
        if len(self.drivers) < MOST_NAMES:
            self.drivers.add(str(spec["driver"]))
        for device in spec.get("devices") or ():
            for name, value in (device.get("attributes") or {}).items():
                if "+" in str(value.get("version") or "") and len(self.built) < MOST_NAMES:
                    self.built.add(qualify(name, str(spec["driver"])))


def of_slice(part: Object) -> Iterator[Concern]:
    """All concerns about a slice."""
    spec = part["spec"]
    driver = str(spec["driver"])
    remedy = (
        f"install a version of the driver {driver} that publishes it otherwise, or ask its vendor for one; if the "
        f"driver is gone, kubectl delete resourceslice {part['metadata']['name']}"
    )
    for i, device in enumerate(spec.get("devices") or ()):
        path = f"spec.devices[{i}]"
        yield from _names(path, device, driver, remedy)
        yield from _versions(path, device, remedy)
        yield from _nodes(path, device, remedy)
        yield from _steps(path, device)


def names_twice(names: Mapping[str, Any], domains: set[str]) -> Iterator[tuple[str, str]]:
    """Each name that is spelled without a domain and with one of these, in both spellings."""
    for name in names:
        domain, slash, short = name.rpartition("/")
        if slash and short in names and domain in domains:
            yield short, name


def _names(path: str, device: Object, driver: str, remedy: str) -> Iterator[Concern]:
    for part in ("attributes", "capacity"):
        names = device.get(part) or {}
        for name in names:
            if name.count("/") > 1:
                yield Concern("failed", f"{path}.{part}", name, f"a name with two slashes: {REFUSED}", remedy)
        for short, long in names_twice(names, {driver}):
            reason = "two spellings of one name: 1.38 reads the one with the domain alone"
            yield Concern("warning", f"{path}.{part}", f"{short} and {long}", reason, remedy)


def _versions(path: str, device: Object, remedy: str) -> Iterator[Concern]:
    for name, value in (device.get("attributes") or {}).items():
        for version in (value.get("version"), *(value.get("versions") or ())):
            if version is not None and not numbers_fit(version):
                reason = f"a version with a number of more than {MAX_DIGITS} digits: {REFUSED}"
                yield Concern("failed", f"{path}.attributes[{name}].version", version, reason, remedy)


def _nodes(path: str, device: Object, remedy: str) -> Iterator[Concern]:
    terms = (device.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    if len(terms) > 1:
        reason = f"a device takes one term: {REFUSED}"
        yield Concern("failed", f"{path}.nodeSelector.nodeSelectorTerms", f"{len(terms)} terms", reason, remedy)


def _steps(path: str, device: Object) -> Iterator[Concern]:
    for name, capacity in (device.get("capacity") or {}).items():
        allowed = (capacity.get("requestPolicy") or {}).get("validRange") or {}
        bounds = {part: Quantity.parse(str(allowed[part])) for part in ("min", "step") if part in allowed}
        if "step" not in bounds or all(amount.nanos % NANO == 0 for amount in bounds.values()):
            continue
        value = ", ".join(f"{part}: {amount}" for part, amount in bounds.items())
        reason = (
            "kube-scheduler 1.37 rounds these up to whole units, and 1.38 reads them as they are: claims get other "
            "amounts"
        )
        remedy = (
            "set the feature gate DRAFractionalCapacityRange=true of kube-scheduler and kube-apiserver 1.37 to see "
            "before the upgrade what claims get; the driver can publish whole units instead"
        )
        yield Concern("warning", f"{path}.capacity[{name}].requestPolicy.validRange", value, reason, remedy)


_NO_NEW: Final = "1.38 leaves this claim as it is, and takes no other one like it"
_NO_CLAIM: Final = "1.38 takes no claim that is made of this template, so its pods do not start"
_TOLERATED: Final = (
    "the effect is empty: 1.37 evicts the pods where a taint has the effect NoExecute, and 1.38 lets them run"
)
_EQUAL: Final = "some devices have versions with build metadata there, which 1.37 compares and 1.38 does not"


def of_claim(claim: Object, published: Published, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a claim."""
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    remedy = "correct the manifest that the claim is made of, before it is applied the next time"
    for path, want in _wants("spec", claim["spec"]):
        requests = (want.get("capacity") or {}).get("requests") or {}
        yield from _refused_amounts(path, requests, "warning", _NO_NEW, remedy)
        listed = want.get("selectors") or ()
        yield from selectors.concerns(f"{path}.selectors", listed, "warning", _NO_NEW, remedy)
        if allocation is None:
            again = f"correct it in the manifest, delete claim {object_key(claim)} and its pods, and make them anew"
            yield from _twice(path, requests, published, again)
        yield from _tolerations(f"{path}.tolerations", want)
    yield from _constraints("spec", claim["spec"], "warning", _NO_NEW, remedy)
    if allocation is None:
        yield from _compared("spec", claim["spec"], published)
    else:
        yield from _consumed(claim, allocation)


def of_template(template: Object, published: Published, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a template."""
    spec, path = template["spec"]["spec"], "spec.spec"
    remedy = (
        f"delete the template {object_key(template)} and make it anew without this; claims that were made of it stay"
    )
    for where, want in _wants(path, spec):
        requests = (want.get("capacity") or {}).get("requests") or {}
        yield from _refused_amounts(where, requests, "failed", _NO_CLAIM, remedy)
        listed = want.get("selectors") or ()
        yield from selectors.concerns(f"{where}.selectors", listed, "failed", _NO_CLAIM, remedy)
        yield from _twice(where, requests, published, remedy)
        yield from _tolerations(f"{where}.tolerations", want)
    yield from _constraints(path, spec, "failed", _NO_CLAIM, remedy)
    yield from _compared(path, spec, published)


def _wants(path: str, spec: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each request or alternative, with its path."""
    for i, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        where = f"{path}.devices.requests[{i}]"
        if request.get("exactly"):
            yield f"{where}.exactly", request["exactly"]
        for j, alternative in enumerate(request.get("firstAvailable") or ()):
            yield f"{where}.firstAvailable[{j}]", alternative


def _refused_amounts(
    path: str, requests: Mapping[str, str], status: Severity, outcome: str, remedy: str
) -> Iterator[Concern]:
    where = f"{path}.capacity.requests"
    if len(requests) > MAX_CAPACITY_REQUESTS:
        reason = f"more than {MAX_CAPACITY_REQUESTS} capacities: {outcome}"
        yield Concern(status, where, f"{len(requests)} capacities", reason, remedy)
    for name, amount in requests.items():
        if not is_qualified_name(name):
            yield Concern(status, where, name, f"no name of a capacity: {outcome}", remedy)
        if _is_negative(amount):
            yield Concern(status, f"{where}[{name}]", str(amount), f"an amount below zero: {outcome}", remedy)


def _is_negative(amount: str) -> bool:
    return Quantity.parse(str(amount)).nanos < 0


def _twice(path: str, requests: Mapping[str, str], published: Published, remedy: str) -> Iterator[Concern]:
    for short, long in names_twice(requests, published.drivers):
        reason = "two spellings of one name: kube-scheduler 1.38 gives the pod no devices, on any node"
        yield Concern("failed", f"{path}.capacity.requests", f"{short} and {long}", reason, remedy)


def _tolerations(path: str, want: Mapping[str, Any]) -> Iterator[Concern]:
    for i, toleration in enumerate(want.get("tolerations") or ()):
        if not toleration.get("effect"):
            remedy = "write effect: NoSchedule where pods are to be evicted; otherwise there is nothing to do"
            key = toleration.get("key") or "every key"
            yield Concern("warning", f"{path}[{i}]", str(key), _TOLERATED, remedy)


def _constraints(path: str, spec: Object, status: Severity, outcome: str, remedy: str) -> Iterator[Concern]:
    for where, name in _compared_names(path, spec):
        if name.count("/") > 1:
            yield Concern(status, where, name, f"a name with two slashes: {outcome}", remedy)


def _compared(path: str, spec: Object, published: Published) -> Iterator[Concern]:
    for where, name in _compared_names(path, spec):
        if name in published.built:
            remedy = "see that devices whose versions differ in build metadata alone may stand for each other"
            yield Concern("warning", where, name, _EQUAL, remedy)


def _compared_names(path: str, spec: Object) -> Iterator[tuple[str, str]]:
    for i, constraint in enumerate((spec.get("devices") or {}).get("constraints") or ()):
        for kind in ("matchAttribute", "distinctAttribute"):
            if constraint.get(kind):
                yield f"{path}.devices.constraints[{i}].{kind}", str(constraint[kind])


def _consumed(claim: Object, allocation: Object) -> Iterator[Concern]:
    remedy = f"delete the pods of claim {object_key(claim)} before the upgrade, and the claim if it has no owner"
    for i, result in enumerate((allocation.get("devices") or {}).get("results") or ()):
        where = f"status.allocation.devices.results[{i}].consumedCapacity"
        for name, amount in (result.get("consumedCapacity") or {}).items():
            if _is_negative(amount):
                reason = "an amount below zero: kube-scheduler 1.38 does not count with it"
                yield Concern("failed", f"{where}[{name}]", str(amount), reason, remedy)
            elif not is_qualified_name(name):
                reason = "no name of a capacity: 1.38 leaves this allocation as it is, and takes no other one like it"
                yield Concern("warning", where, name, reason, remedy)


def of_class(device_class: Object, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a class."""
    listed = (device_class.get("spec") or {}).get("selectors") or ()
    outcome = "changes of the class are refused"
    remedy = "write the selector anew, with what the message says"
    yield from selectors.concerns("spec.selectors", listed, "failed", outcome, remedy)


def of_taint_rule(rule: Object) -> Iterator[Concern]:
    """All concerns about a rule."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None or any(selector.get(name) for name in ("driver", "pool", "device")):
        return
    effect = (rule["spec"].get("taint") or {}).get("effect") or ""
    reason = "it taints every device of every driver, of which 1.38 warns; the gate of such rules is locked to on there"
    remedy = "name the driver, the pool or the device in spec.deviceSelector, or delete the rule"
    yield Concern("warning", "spec.deviceSelector", f"{{}}, effect {effect}", reason, remedy)
