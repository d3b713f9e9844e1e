"""What becomes of a pod or a claim, as a value, as JSON and as lines of a table; for ``simulate`` and ``explain``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from controller.allocation import Summary, render
from controller.decisions import Decision, Release, TakeBack, Unallocatable, Wait
from controller.explain import explain, summary
from controller.pods import ClaimReference, PodView
from controller.reconcile import refusals
from controller.records import ClaimRecord
from controller.state import State
from driver.model import Claim
from driver.wire import allocation_to

Json = dict[str, Any]
ClaimState = Literal["chosen", "held", "pending", "others", "missing"]
Result = Literal["placed", "allocated", "waiting", "others"]

DEVICE_HEADER: Final = ("CLAIM", "REQUEST", "POOL", "DEVICE", "CONSUMES")
_RESULT_FIELDS: Final = ("request", "driver", "pool", "device", "consumedCapacity", "adminAccess")
_DEVICE: Final = ("driver", "pool", "device", "shareID")
_NONE: Final = "<none>"
_INDENT: Final = "\n  "
_FULL: Final = 1 << 16
"""Characters of reasons that a terminal is shown; there are never nearly as many."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a decision comes to: everything is allocated, or the reason why not, in a word and in full.

    Attributes:
        summary: why each group of nodes refuses, if nodes were asked.
    """

    reason: str = ""
    message: str = ""
    summary: Summary | None = None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An allocation that the controller would clear, and why."""

    node: str
    message: str


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """One claim of a pod.

    Attributes:
        entry: its name in the pod; "" for a claim on its own.
        state: ``chosen``: it gets its devices here; ``held``: it had them before; ``pending``: it has none;
            ``others``: it is for another driver to allocate; ``missing``: it does not exist.
        devices: ``request``, ``driver``, ``pool``, ``device`` and, where they apply, ``consumedCapacity`` and
            ``adminAccess``, as in ``status.allocation.devices.results``; of a claim that is ``held`` also ``shareID``
            and ``status``, the device's entry in ``status.devices``.
        reserved_for: who holds a ``held`` claim, as ``pods/train``.
    """

    entry: str
    name: str
    template: str
    state: ClaimState
    devices: tuple[Json, ...] = ()
    reserved_for: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        return {
            **_sparse(entry=self.entry, name=self.name, template=self.template),
            "state": self.state,
            "devices": list(self.devices),
            **_sparse(reservedFor=list(self.reserved_for)),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one pod, or of one claim that no pod uses.

    Attributes:
        result: ``placed``: gets its devices here; ``allocated``: had them before; ``waiting``: has to wait, for
            the reason ``told``; ``others``: asks for no devices of ours.
    """

    kind: Literal["Pod", "ResourceClaim"]
    namespace: str
    name: str
    result: Result
    node: str
    claims: tuple[ClaimOutcome, ...]
    told: Verdict = Verdict()
    taken_back: tuple[TakenBack, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether everything it asks of us, if anything, is allocated."""
        return self.result != "waiting"

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        summed = self.told.summary.to_json() if self.told.summary else ""
        told = _sparse(reason=self.told.reason, message=self.told.message, reasons=summed)
        taken = [{"node": one.node, "message": one.message} for one in self.taken_back]
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "result": self.result,
            "node": self.node,
            "claims": [claim.to_json() for claim in self.claims],
            **told,
            **_sparse(takenBack=taken),
        }

    def why(self) -> str:
        """Why it waits, in full: a line for each group of nodes and one for the closest miss."""
        head = f"{self.kind} {self.namespace}/{self.name} waits ({self.told.reason}):"
        nodes = self.told.summary
        if nodes is None:
            return f"{head}{_INDENT}{self.told.message}"
        counted = f"0 of {nodes.nodes} {'node' if nodes.nodes == 1 else 'nodes'} can take the pod."
        return f"{head}{_INDENT}{counted}{_INDENT}{render(nodes, _FULL, _INDENT)}"


def verdict(state: State, decision: Decision) -> Verdict:
    """A decision in words, the controller's own; the pod must still be in the state."""
    match decision:
        case Wait(reason, message):
            return Verdict(reason, message)
        case Unallocatable(_, claims):
            refused = refusals(state, decision)
            return Verdict("Unallocatable", explain(refused, claims), summary(refused, claims) if refused else None)
        case Release(_, node):
            return Verdict("Refused", f"kube-scheduler refuses the pod on node {node}; its devices will be taken back")
        case TakeBack(_, node, message):
            return Verdict("TakenBack", f"the devices on node {node} will be taken back: {message}")
    return Verdict()


def of_pod(state: State, key: str, told: Verdict, chosen: Collection[str], taken_back: Sequence[TakenBack]) -> Outcome:
    """The outcome of a verdict about a pod; ``chosen`` are the claims that got devices."""
    pod = state.pods[key]
    claims = tuple(_claim(state, pod.namespace, ref, chosen) for ref in pod.references)
    result = _result(told, claims)
    node = "" if result == "waiting" else _node(state, pod)
    return Outcome("Pod", pod.namespace, pod.name, result, node, claims, told, tuple(taken_back))


def of_claim(state: State, key: str, told: Verdict, chosen: bool) -> Outcome:
    """The outcome of a verdict about a claim by itself; ``chosen`` if that gave it devices."""
    one = state.claims[key].claim
    claims = (_claim(state, one.namespace, ClaimReference("", one.name), (key,) if chosen else ()),)
    node = one.allocation.node_name if one.allocation else ""
    result = _result(told, claims)
    return Outcome("ResourceClaim", one.namespace, one.name, result, node, claims, told)


def _result(told: Verdict, claims: Sequence[ClaimOutcome]) -> Result:
    if told.reason:
        return "waiting"
    states = {claim.state for claim in claims}
    return "placed" if "chosen" in states else "allocated" if "held" in states else "others"


def _node(state: State, pod: PodView) -> str:
    if pod.node_name:
        return pod.node_name
    records = (state.claims.get(key) for key in pod.claim_keys)
    names = (record.claim.allocation.node_name for record in records if record and record.claim.allocation)
    return next((name for name in names if name), "")


def _claim(state: State, namespace: str, ref: ClaimReference, chosen: Collection[str]) -> ClaimOutcome:
    key = f"{namespace}/{ref.claim}"
    record = state.claims.get(key)
    if record is None:
        return ClaimOutcome(ref.entry, ref.claim, ref.template, "missing")
    if key in chosen or record.claim.allocation is None:
        where = _state(state, record.claim, key in chosen)
        return ClaimOutcome(ref.entry, ref.claim, ref.template, where, _devices(record.claim))
    return replace(_held(state, record), entry=ref.entry, template=ref.template)


def _held(state: State, record: ClaimRecord) -> ClaimOutcome:
    statuses = {_device(entry): entry for entry in (record.raw.get("status") or {}).get("devices") or ()}
    devices = []
    for device in _devices(record.claim, "shareID"):
        more = {name: part for name, part in statuses.get(_device(device), {}).items() if name not in _DEVICE}
        devices.append({**device, "status": more} if more else device)
    holders = tuple(f"{one.resource}/{one.name}" for one in record.claim.reserved_for)
    where = _state(state, record.claim, chosen=False)
    return ClaimOutcome("", record.claim.name, "", where, tuple(devices), holders)


def _device(entry: Json) -> tuple[str, ...]:
    return tuple(entry.get(name) or "" for name in _DEVICE)


def _state(state: State, claim: Claim, chosen: bool) -> ClaimState:
    if claim.allocation is not None:
        if chosen:
            return "chosen"
        return "held" if state.holds_ours(claim) else "others"
    classes = [want.device_class for request in claim.spec.requests for want in request.wants]
    known = [state.classes[name] for name in classes if name in state.classes]
    return "others" if known and len(known) == len(classes) and not any(c.ours for c in known) else "pending"


def _devices(claim: Claim, *more: str) -> tuple[Json, ...]:
    if claim.allocation is None:
        return ()
    results = allocation_to(claim.allocation).get("devices", {}).get("results", [])
    return tuple({name: result[name] for name in (*_RESULT_FIELDS, *more) if name in result} for result in results)


def device_rows(claims: Iterable[ClaimOutcome], *, holders: bool = False) -> list[tuple[str, ...]]:
    """A line for each device under ``DEVICE_HEADER``, with ``holders`` also who holds it; at least one for a claim."""
    rows: list[tuple[str, ...]] = []
    for claim in claims:
        name = claim.name or f"({claim.entry})"
        last = (", ".join(claim.reserved_for) or _NONE,) if holders else ()
        if not claim.devices:
            rows.append((name, "", "", f"<{claim.state}>", "", *last))
        rows += [(name, d["request"], d["pool"], d["device"], consumed(d), *last) for d in claim.devices]
    return rows


def consumed(device: Mapping[str, Any]) -> str:
    """What an allocation takes of a device, in a few words."""
    if device.get("adminAccess"):
        return "nothing (admin access)"
    amounts = device.get("consumedCapacity") or {}
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items())) or "all of it"


def outcome_rows(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Lines of NAMESPACE, NAME, NODE and what ``DEVICE_HEADER`` names, in the order of decision."""
    rows: list[tuple[str, ...]] = []
    for outcome in outcomes:
        head = (outcome.namespace, outcome.name, outcome.node or _NONE)
        rows += [(*head, *row) for row in device_rows(outcome.claims)]
    return rows


def _sparse(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value not in ("", [], ())}
