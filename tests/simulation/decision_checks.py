"""Invariants of every allocation, checked against the claim, classes, slices, rules and nodes that the controller knew.
So is what a pod holds already when it is let go.

A controller may act on its last events although the cluster has changed since. So its allocations are checked against
the objects that its reflectors delivered, not against those in the API.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from controller.state import DEVICE_TAINT_RULES_BETA, Decoded, PodView, StateDelta
from controller.state.kinds import Deleted
from controller.writing import Writes, WriteSequence
from controller.writing.port import ReportKey
from controller.writing.steps import PatchClaimStatus, RemoveGate, Target, at_version
from driver.cel import DeviceView, SelectorFault, compile_selector, view
from driver.kinds import KIND_ATTRIBUTE
from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from driver.kube.reflector import Missing, Reflector, Synced
from driver.model import Allocation, Claim, Device, DeviceId, Request, Result, Slice, Taint, Toleration, Want
from driver.names import NVIDIA_DRA_DRIVER, Names
from tests.simulation.gang_values import ValueRules

_RULES = (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
_KINDS = (DEVICE_CLASSES, *_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES)
"""What must not be allocated without contact to."""
_NAMES = Names()
_compiled = cache(compile_selector)


class DecisionChecks:
    """Checks the allocations of one controller process against the events that it received.

    Args:
        found: what is wrong is added here.
        reflectors: returns those of the process.
        names: of the process.
    """

    def __init__(self, found: list[str], reflectors: Callable[[], Iterable[Reflector]], names: Names = _NAMES):
        self._found = found
        self._reflectors = reflectors
        self._told: dict[Resource, dict[str, Any]] = {kind: {} for kind in (*_KINDS, NODES, PODS)}
        self._rules = AllocationRules(self._told, names)
        self._values = ValueRules(self._told, names, self._rules.device)
        self._looked_at: dict[str, Allocation] = {}
        """The last allocation for each claim, by uid: a write without an answer is repeated as it was decided."""
        self._let_go: dict[str, WriteSequence] = {}
        """The last sequence by which each pod was let go, by uid, for the same reason."""

    def tell(self, delta: StateDelta) -> None:
        """Apply an event of a reflector."""
        match delta:
            case Decoded(resource=resource, key=key, value=value) if resource in self._told and value is not None:
                self._told[resource][key] = value
            case Deleted(resource=resource, key=key) if resource in self._told:
                self._told[resource].pop(key, None)
            case Synced(resource=resource, keys=keys) if resource in self._told:
                known = self._told[resource]
                self._told[resource] = {key: value for key, value in known.items() if key in keys}
            case Missing(resource=resource) if resource in self._told:
                self._told[resource] = {}

    def look(self, sequence: WriteSequence) -> None:
        """Check the allocations of a decision, and what a pod has that is let go."""
        for step in sequence.steps:
            if isinstance(step, RemoveGate):
                self._look_at_gate(step.target, sequence)
            if isinstance(step, PatchClaimStatus) and step.allocation is not None:
                if self._looked_at.get(step.target.uid) == step.allocation:
                    continue
                self._looked_at[step.target.uid] = step.allocation
                if unread := [one.resource.plural for one in self._reflectors() if _is_out_of_contact(one)]:
                    self._found.append(f"{step.target.key} is to be allocated, though {unread} cannot be read")
                node = self._told[NODES].get(step.allocation.node_name)
                if node is not None and node.facts.closing_conditions:
                    closed = f"{node.facts.name}, which is closed by {node.facts.closing_conditions}"
                    self._found.append(f"{step.target.key} is to be allocated on {closed}")
                record = self._told[RESOURCE_CLAIMS].get(step.target.key)
                if record is not None and record.claim.uid == step.target.uid:
                    problems = [
                        *self._rules.problems(record.claim, step.allocation),
                        *self._values.problems_beside_bound(record.claim, step.allocation),
                    ]
                    self._found += [f"{step.target.key} is to be allocated: {problem}" for problem in problems]

    def _look_at_gate(self, target: Target, sequence: WriteSequence) -> None:
        """Check that no pod is let go on a device that is tainted for it or not published."""
        pod: PodView | None = self._told[PODS].get(target.key)
        if pod is None or pod.uid != target.uid:
            return
        if is_rest(sequence, self._let_go.get(pod.uid)):
            return
        self._let_go[pod.uid] = sequence
        self._found += [f"{target.key} is let go: {problem}" for problem in self._values.problems_of_start(pod)]
        # What the same decision allocates anew, as its devices were taken back, is judged where that is written.
        anew = {step.target.key for step in sequence.steps if isinstance(step, PatchClaimStatus) and step.allocation}
        records = (self._told[RESOURCE_CLAIMS].get(key) for key in pod.claim_keys if key not in anew)
        held = (one.claim.allocation for one in records if one is not None and one.claim.allocation is not None)
        results = (result for allocation in held for result in allocation.results)
        for problem in (problem for result in results for problem in self._rules.unusable(result)):
            self._found.append(f"{target.key} is let go: {problem}")


def is_rest(sequence: WriteSequence, decided: WriteSequence | None) -> bool:
    """Whether the sequence is what is left of one that was decided before and has not been answered.

    Steps that were made before have left other versions of the objects that the rest is about.
    """
    if decided is None:
        return False
    count = len(sequence.steps)
    made, rest = decided.steps[:-count], decided.steps[-count:]
    changed = {(step.target.resource, step.target.key) for step in made}
    versions = {(step.target.resource, step.target.key): step.target.version for step in sequence.steps}
    left = {key: version for key, version in versions.items() if key in changed}
    return tuple(at_version(step, left) for step in rest) == sequence.steps


def _is_out_of_contact(reflector: Reflector) -> bool:
    """Whether the process may have missed changes of the objects that an allocation depends on."""
    return reflector.resource in _KINDS and (reflector.error or reflector.forbidden) is not None


class AllocationRules:
    """Rules of an allocation that can be checked with its claim alone.

    Args:
        known: ``Slice``, ``TaintRule`` and ``ClassRecord`` by kind and key; may change afterwards.
        names: those of NVIDIA's driver may stand for ours.
    """

    def __init__(self, known: Mapping[Resource, Mapping[str, Any]], names: Names = _NAMES):
        self._known = known
        self._names = names
        self._views: dict[DeviceId, tuple[Device, DeviceView | None]] = {}
        """Each device as selectors see it; None if they see nothing."""

    def problems(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        """Everything that is wrong with the allocation."""
        wants = {name: want for request in claim.spec.requests for name, want in _named(request).items()}
        by_request: dict[str, list[Result]] = {}
        for result in allocation.results:
            by_request.setdefault(result.request, []).append(result)
        if {name.partition("/")[0] for name in by_request} != {request.name for request in claim.spec.requests}:
            yield f"requests {sorted(by_request)} have devices, the claim has {claim.spec.requests}"
        for name, results in by_request.items():
            want = wants[name]
            if want.mode == "ExactCount" and len(results) != want.count:
                yield f"request {name} wants {want.count} devices and gets {len(results)}"
            for result in results:
                yield from self._device_problems(want, result)
        yield from self._constraint_problems(claim, allocation)

    def unusable(self, result: Result) -> Iterator[str]:
        """What keeps pods from a device of ours that was allocated before."""
        if result.device.driver != self._names.driver:
            return
        device = self.device(result.device)
        if device is None:
            yield f"{result.device} is not published"
            return
        for taint in (*device.taints, *self._rule_taints(result.device)):
            if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, result.tolerations):
                yield f"{result.device} has the taint {taint}, which the claim does not tolerate"

    def _device_problems(self, want: Want, result: Result) -> Iterator[str]:
        device = self.device(result.device)
        if device is None:
            yield f"{result.device} is not published"
            return
        record = self._known[DEVICE_CLASSES].get(want.device_class)
        if record is None:
            yield f"there is no class {want.device_class}"
            return
        selectors = record.value.selectors
        if (
            self._names.nvidia_dra
            and want.device_class == NVIDIA_DRA_DRIVER
            and want.capacity
            and not want.admin_access
        ):
            selectors = ()  # they select whole cards
            if device.attributes.get(self._names.attribute(KIND_ATTRIBUTE)) != "gpu-share":
                yield f"{result.device} is no share of a card, which the request asks for"
        for expression in (*selectors, *want.selectors):
            if not self._matches(expression, result.device, device):
                yield f"{result.device} does not match {expression}"
        if not want.admin_access:
            for taint in (*device.taints, *self._rule_taints(result.device)):
                if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, want.tolerations):
                    yield f"{result.device} has the taint {taint}, which the request does not tolerate"
        yield from _capacity_problems(want, device, result)

    def _constraint_problems(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        for constraint in claim.spec.constraints:
            concerned = [
                result.device
                for result in allocation.results
                if not constraint.requests
                or {result.request, result.request.partition("/")[0]} & {*constraint.requests}
            ]
            name = constraint.match_attribute or constraint.distinct_attribute
            devices = [device for one in concerned if (device := self.device(one)) is not None]
            values: list[Hashable] = [device.attributes.get(name) for device in devices]
            different = len(set(values))
            wrong = different > 1 if constraint.match_attribute else different < len(values)
            if wrong or None in values:
                yield f"the devices {[str(one) for one in concerned]} have {values} as {name}, against {constraint}"

    def _matches(self, expression: str, name: DeviceId, device: Device) -> bool:
        seen = self._views.get(name)
        if seen is None or seen[0] is not device:
            seen = self._views[name] = (device, _view(device, name.driver))
        return seen[1] is not None and _holds(expression, seen[1])

    def device(self, wanted: DeviceId) -> Device | None:
        """The device as the newest generation of its pool publishes it; None if it does not."""
        slices: list[Slice] = [
            part
            for part in self._known[RESOURCE_SLICES].values()
            if (part.driver, part.pool) == (wanted.driver, wanted.pool)
        ]
        newest = max((part.generation for part in slices), default=0)
        current = (device for part in slices if part.generation == newest for device in part.devices)
        return next((device for device in current if device.name == wanted.device), None)

    def _rule_taints(self, device: DeviceId) -> Iterator[Taint]:
        for rule in (rule for kind in _RULES for rule in self._known.get(kind, {}).values()):
            asked = ((rule.driver, device.driver), (rule.pool, device.pool), (rule.device, device.device))
            if rule.selects and all(wanted in ("", actual) for wanted, actual in asked):
                yield rule.taint


class WatchedWrites:
    """Implements ``Writes``: checks each decision, and passes it on."""

    def __init__(self, writes: Writes, *looks: Callable[[WriteSequence], None]):
        self._writes = writes
        self._looks = looks

    def submit(self, sequence: WriteSequence) -> None:
        """As ``Writes.submit``."""
        for look in self._looks:
            look(sequence)
        self._writes.submit(sequence)

    def report(self, key: ReportKey, sequence: WriteSequence) -> None:
        """As ``Writes.report``."""
        self._writes.report(key, sequence)


def _named(request: Request) -> Mapping[str, Want]:
    """The wants of a request by the name that results have."""
    return {f"{request.name}/{want.name}" if request.prioritized else request.name: want for want in request.wants}


def _view(device: Device, driver: str) -> DeviceView | None:
    try:
        return view(device, driver)
    except SelectorFault:
        return None


def _holds(expression: str, seen: DeviceView) -> bool:
    try:
        return _compiled(expression).evaluate(seen) is True
    except SelectorFault:
        return False


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        one.effect in ("", taint.effect)
        and one.key in ("", taint.key)
        and (one.operator == "Exists" or (one.key, one.value) == (taint.key, taint.value))
        for one in tolerations
    )


def _capacity_problems(want: Want, device: Device, result: Result) -> Iterator[str]:
    if not device.allow_multiple:
        return
    for name, capacity in device.capacity.items():
        consumed, asked = result.consumed.get(name), want.capacity.get(name)
        if consumed is None:
            continue
        if asked is not None and consumed < asked:
            yield f"{result.device} gives {consumed} of {name}, less than {asked}"
        policy = capacity.policy
        if policy is not None and policy.valid_values and consumed not in policy.valid_values:
            yield f"{result.device} gives {consumed} of {name}, which is not one of {policy.valid_values}"
        if policy is not None and policy.minimum is not None and consumed < policy.minimum:
            yield f"{result.device} gives {consumed} of {name}, less than its minimum {policy.minimum}"
