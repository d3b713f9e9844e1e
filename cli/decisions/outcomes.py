"""The outcome for a pod or a claim, as a value, as JSON and as lines of a table; for ``simulate`` and ``explain``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cli.decisions import evictions
from controller.allocation import Drivers, NodeReasons
from controller.explaining.messages import (
    IN_VAIN,
    Message,
    Summary,
    message_of,
    render,
    rests_on_memory,
    summary_of,
    with_member,
)
from controller.reconcile.decisions import Decision, PodRefusal, Reason, Release, TakeBack, Wait
from controller.refusal import Refusal
from controller.state import ClaimRecord, PodView, State
from controller.state.pods import ClaimReference, Condition
from driver.model import Claim
from driver.wire import Json, allocation_to

ClaimState = Literal["chosen", "held", "pending", "others", "missing"]
OutcomeKind = Literal["placed", "allocated", "waiting", "others"]

DEVICE_HEADER: Final = ("CLAIM", "REQUEST", "POOL", "DEVICE", "CONSUMES")
ONLY_THE_CONTROLLER: Final = (
    "no object of the API says on which nodes kube-scheduler refused a pod, nor which nodes are held back, so none of "
    "these is left out here"
)
"""The reason why a decision from the objects alone may choose a node that the controller avoids."""
_RESULT_FIELDS: Final = ("request", "driver", "pool", "device", "consumedCapacity", "adminAccess")
_DEVICE: Final = ("driver", "pool", "device", "shareID")
_NONE: Final = "<none>"
_INDENT: Final = "\n  "
_MAX_CHARACTERS: Final = 1 << 16
"""Of the reasons that are printed; in practice there are far fewer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reason why the pod or claim has to wait; empty if everything is allocated.

    Attributes:
        reason: of the controller's condition.
        summary: why each group of nodes refuses the pod, or a member of its gang, if nodes were tried.
        domains: what the domains of its gang take, if it has one that no domain takes.
        member: the member that ``summary`` is about; "" for the pod itself.
    """

    reason: str = ""
    message: str = ""
    summary: Summary | None = None
    domains: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An allocation that the controller would clear, and why."""

    node: str
    message: str


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """One claim of a pod.

    Attributes:
        entry: its name in the pod; "" for a claim that is not looked at as part of a pod.
        state: ``chosen``: it gets its devices here; ``held``: it had them before; ``pending``: it has none;
            ``others``: another driver allocates it; ``missing``: it does not exist.
        devices: ``request``, ``driver``, ``pool``, ``device`` and, where they apply, ``consumedCapacity`` and
            ``adminAccess``, as in ``status.allocation.devices.results``; of a claim that is ``held`` also ``shareID``
            and ``status``, the device's entry in ``status.devices``.
        reserved_for: the consumers of a ``held`` claim, as ``pods/train``.
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
    """The outcome for one pod, for one claim that no pod uses, or for all members of a gang.

    Attributes:
        result: ``placed``: gets its devices here; ``allocated``: had them before; ``waiting``: has to wait, see
            ``verdict``; ``others``: asks for no devices of our driver.
    """

    kind: Literal["Pod", "ResourceClaim", "Gang"]
    namespace: str
    name: str
    result: OutcomeKind
    node: str
    claims: tuple[ClaimOutcome, ...]
    verdict: Verdict = Verdict()
    taken_back: tuple[TakenBack, ...] = ()
    preemption: evictions.Answer | None = None
    """Who would be evicted for it; None if it does not wait, or nobody has a priority."""
    closeness: tuple[str, ...] = ()
    """Which linked cards it gets here and why no closer ones, in sentences; none if it had its devices before."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def placed(self) -> bool:
        """Whether everything that it asks of our driver, if anything, is allocated."""
        return self.result != "waiting"

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        verdict = self.verdict
        reasons = verdict.summary.to_json() if verdict.summary else ""
        taken_back = [{"node": lost.node, "message": lost.message} for lost in self.taken_back]
        preemption = evictions.to_json(self.preemption) if self.preemption else ""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "result": self.result,
            "node": self.node,
            "claims": [claim.to_json() for claim in self.claims],
            **_sparse(
                reason=verdict.reason,
                message=verdict.message,
                reasons=reasons,
                takenBack=taken_back,
                preemption=preemption,
                closeness=list(self.closeness),
            ),
        }

    def wait_text(self) -> str:
        """The full reason why it waits: a line for each group of nodes and one for the closest miss, and then who would
        be evicted for it."""
        head = f"{self.kind} {self.namespace}/{self.name} waits ({self.verdict.reason}):"
        nodes = self.verdict.summary
        said = evictions.text_of(self.preemption) if self.preemption else ""
        last = f"{_INDENT}{said}" if said else ""
        if nodes is None:
            return f"{head}{_INDENT}{self.verdict.message}{last}"
        who = f"pod {self.verdict.member}" if self.verdict.member else "the pod"
        counted = f"0 of {nodes.nodes} {'node' if nodes.nodes == 1 else 'nodes'} can take {who}."
        if self.verdict.domains:
            counted = f"{self.verdict.domains}{_INDENT}{counted}"
        if self.verdict.reason == Reason.IMPOSSIBLE:
            counted += f"{_INDENT}{IN_VAIN}"
        return f"{head}{_INDENT}{counted}{_INDENT}{render(nodes, _MAX_CHARACTERS, _INDENT)}{last}"


def knows_more(reported: Condition | None) -> bool:
    """Whether the controller's condition says that a pod waits for a reason that no object of the API shows in full."""
    return reported is not None and reported.status == "False" and rests_on_memory(reported.message)


def verdict(
    decision: Decision,
    reasons: Mapping[str, NodeReasons] | None = None,
    in_vain: bool = False,
    *,
    no_nodes: bool = False,
) -> Verdict:
    """The verdict that the controller reports for a decision.

    Args:
        reasons: for a ``PodRefusal``, the reasons of ``ask_all``.
        in_vain: for a ``PodRefusal``, ``Questions.impossible``.
        no_nodes: whether the cluster has no nodes at all.
    """
    match decision:
        case Wait(reason, message, nowhere=None):
            return Verdict(reason, message)
        case Wait(_, message, nowhere=Refusal() as member):
            summary, told = _explained(member, reasons or {}, in_vain, no_nodes)
            said = with_member(decision, member, told)
            return Verdict(said.reason, said.message, summary, domains=message, member=member.subject)
        case Refusal(why=question):
            summary, told = _explained(decision, reasons or {}, in_vain, no_nodes)
            return Verdict(told.reason, told.text(question.claims), summary)
        case Release(_, node):
            return Verdict(
                Reason.REFUSED, f"kube-scheduler refuses the pod on node {node}; its devices will be taken back"
            )
        case TakeBack(_, node, message):
            return Verdict("TakenBack", f"the devices on node {node} will be taken back: {message}")
    return Verdict()


def _explained(
    refused: PodRefusal, reasons: Mapping[str, NodeReasons], in_vain: bool, no_nodes: bool
) -> tuple[Summary | None, Message]:
    summary = summary_of(reasons, refused.why.claims) if reasons else None
    return summary, message_of(
        reasons,
        refused.why.claims,
        bound_to=refused.why.bound_to,
        impossible=in_vain,
        no_nodes=no_nodes,
        tied_by=refused.why.tied_by,
    )


ClaimObjects = Mapping[str, Json]
"""ResourceClaim objects by ``namespace/name``."""


def outcome_of_pod(
    state: State,
    objects: ClaimObjects,
    key: str,
    answer: Verdict,
    chosen: Collection[str],
    taken_back: Sequence[TakenBack],
) -> Outcome:
    """The outcome for a pod with this verdict; ``chosen`` are the claims that got devices."""
    pod = state.pods[key]
    claims = tuple(_claim(state, objects, pod.namespace, ref, chosen) for ref in pod.references)
    result = _result(answer, claims)
    node = "" if result == "waiting" else _node(state, pod)
    return Outcome(
        "Pod", pod.namespace, pod.name, result, node=node, claims=claims, verdict=answer, taken_back=tuple(taken_back)
    )


def outcome_of_claim(state: State, objects: ClaimObjects, key: str, answer: Verdict, chosen: bool) -> Outcome:
    """The outcome for a claim with this verdict, not as part of a pod; ``chosen`` if it got devices."""
    claim = state.claims[key].claim
    claims = (_claim(state, objects, claim.namespace, ClaimReference("", claim.name), (key,) if chosen else ()),)
    node = claim.allocation.node_name if claim.allocation else ""
    result = _result(answer, claims)
    return Outcome("ResourceClaim", claim.namespace, claim.name, result, node=node, claims=claims, verdict=answer)


def _result(answer: Verdict, claims: Sequence[ClaimOutcome]) -> OutcomeKind:
    if answer.reason:
        return "waiting"
    states = {claim.state for claim in claims}
    return "placed" if "chosen" in states else "allocated" if "held" in states else "others"


def _node(state: State, pod: PodView) -> str:
    if pod.node_name:
        return pod.node_name
    records = (state.claims.get(key) for key in pod.claim_keys)
    names = (record.claim.allocation.node_name for record in records if record and record.claim.allocation)
    return next((name for name in names if name), "")


def _claim(
    state: State, objects: ClaimObjects, namespace: str, ref: ClaimReference, chosen: Collection[str]
) -> ClaimOutcome:
    key = f"{namespace}/{ref.claim}"
    record = state.claims.get(key)
    if record is None:
        return ClaimOutcome(ref.entry, ref.claim, ref.template, "missing")
    if key in chosen or record.claim.allocation is None:
        claim_state = _claim_state(state, record.claim, key in chosen)
        return ClaimOutcome(ref.entry, ref.claim, ref.template, claim_state, _devices(record.claim))
    return replace(_held(state, record, objects[key].get("status") or {}), entry=ref.entry, template=ref.template)


def _held(state: State, record: ClaimRecord, status: Json) -> ClaimOutcome:
    statuses = {_device_id(entry): entry for entry in status.get("devices") or ()}
    devices = []
    for device in _devices(record.claim, "shareID"):
        fields = {name: part for name, part in statuses.get(_device_id(device), {}).items() if name not in _DEVICE}
        devices.append({**device, "status": fields} if fields else device)
    consumers = tuple(f"{consumer.resource}/{consumer.name}" for consumer in record.claim.reserved_for)
    claim_state = _claim_state(state, record.claim, chosen=False)
    return ClaimOutcome("", record.claim.name, "", claim_state, devices=tuple(devices), reserved_for=consumers)


def _device_id(entry: Json) -> tuple[str, ...]:
    return tuple(entry.get(name) or "" for name in _DEVICE)


def _claim_state(state: State, claim: Claim, chosen: bool) -> ClaimState:
    if claim.allocation is not None:
        if chosen:
            return "chosen"
        return "held" if state.holds_ours(claim) else "others"
    wants = [want for request in claim.spec.requests for want in request.wants]
    known = [state.classes.drivers(want) for want in wants if want.device_class in state.classes]
    others = known and len(known) == len(wants) and not {Drivers.OURS, Drivers.BOTH} & set(known)
    return "others" if others else "pending"


def _devices(claim: Claim, *more: str) -> tuple[Json, ...]:
    if claim.allocation is None:
        return ()
    results = allocation_to(claim.allocation).get("devices", {}).get("results", [])
    return tuple({name: result[name] for name in (*_RESULT_FIELDS, *more) if name in result} for result in results)


def device_rows(claims: Iterable[ClaimOutcome], *, consumers: bool = False) -> list[tuple[str, ...]]:
    """A line for each device under ``DEVICE_HEADER``, at least one per claim; with ``consumers`` also the claim's."""
    rows: list[tuple[str, ...]] = []
    for claim in claims:
        name = claim.name or f"({claim.entry})"
        last = (", ".join(claim.reserved_for) or _NONE,) if consumers else ()
        if not claim.devices:
            rows.append((name, "", "", f"<{claim.state}>", "", *last))
        rows += [(name, d["request"], d["pool"], d["device"], consumed(d), *last) for d in claim.devices]
    return rows


def consumed(device: Mapping[str, Any]) -> str:
    """The consumed capacity of a device, as text."""
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
