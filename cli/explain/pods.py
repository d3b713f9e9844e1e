"""Explains a live pod or claim: reads the cluster with the user's rights, decides as the controller would, and notes
what is unknown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cli.decisions.outcomes import DEVICE_HEADER, ONLY_THE_CONTROLLER, Outcome, Verdict, device_rows, knows_more
from cli.decisions.settings import settings_of_cluster
from cli.decisions.simulator import Simulator
from cli.decisions.snapshot import ClusterSnapshot, snapshot_of
from cli.live import (
    DECIDING,
    MissingRight,
    NoRights,
    consequences,
    get_one,
    list_all,
    read_what_may_be_read,
    stored,
)
from cli.tables import since_text, table
from controller.membership import GangTerms
from controller.reconcile import known_gang
from controller.state import DecisionSettings, PodView
from controller.state.kinds import VOLUME_RESOURCES
from controller.state.pods import Condition, pod_from
from controller.waiting import rank_of
from driver.errors import OperatorFault
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    LEASES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    Object,
    Resource,
)
from driver.limits import bounded
from driver.names import CONTROLLER_NAMESPACE, Names
from driver.wire import Json

_LEASE: Final = "lode-controller"
"""The Lease of an installation as in the manifests."""
_MOST_WORDS: Final = 4096
"""Characters of kube-scheduler's message that are read."""
_ERRORS: Final = (
    (
        re.compile(r'capacity "[^"]*" requested both as ("[^"]*") and as ("[^"]*")'),
        "they are one name. Keep one of them in capacity.requests: make the template, or the claim, and the pod anew",
    ),
    (
        re.compile(r"unsupported attribute value for [^\s,;]+"),
        "matchAttribute or distinctAttribute compares what that device says in a form that this version cannot "
        "compare, such as a list. Compare another attribute, or leave the device out with a selector: make the "
        "template, or the claim, and the pod anew",
    ),
    (
        re.compile(r"claim [^\s,]+, device [^\s,]+: consumed capacity [^\s]+ must not be negative"),
        "as long as that claim is allocated, no pod with claims gets a place. Delete the pods of the claim, and the "
        "claim if it is not deleted with them",
    ),
    (
        re.compile(r'capacity "[^"]*": capacity value is negative'),
        "a request asks for an amount below zero. Correct capacity.requests: make the template, or the claim, and the "
        "pod anew",
    ),
)
"""Errors of kube-scheduler about claims with which it gives a pod up on every node, and what ends them."""


def health_notes(pod: Object) -> Iterator[str]:
    """A note for each device of a claim that the kubelet calls unhealthy (``allocatedResourcesStatus``, KEP-4680)."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for claim in container.get("allocatedResourcesStatus") or ():
            for device in claim.get("resources") or ():
                if device.get("health") == "Unhealthy":
                    why = f": {device['message']}" if device.get("message") else ""
                    yield f"container {container['name']}: the device {device['resourceID']} is unhealthy{why}"


def scheduler_notes(pod: Object) -> Iterator[str]:
    """A note for each error that kube-scheduler has with the pod's claims, or with those of others: what ends it."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") != "PodScheduled" or condition.get("status") != "False":
            continue
        words = str(condition.get("message") or "")[:_MOST_WORDS]
        for error, remedy in _ERRORS:
            if found := error.search(words):
                yield f"kube-scheduler says: {bounded(found[0], 300)}: {remedy}"


def leader_note(api: Api, now: float) -> Iterator[str]:
    """A note if the Lease of the controller says that no replica leads.

    Without the right to read it, and in another namespace, nothing is known.

    Args:
        now: seconds since the epoch.

    Raises:
        OperatorFault: the API server does not answer.
    """
    try:
        found = get_one(api, LEASES, _LEASE, CONTROLLER_NAMESPACE)
    except NoRights:
        return
    spec = (found or {}).get("spec") or {}
    if not spec.get("renewTime"):
        return
    ends = datetime.fromisoformat(spec["renewTime"]).timestamp() + int(spec.get("leaseDurationSeconds") or 0)
    if not spec.get("holderIdentity") or ends < now:
        yield (
            f"no controller leads, so nothing is allocated: the Lease {CONTROLLER_NAMESPACE}/{_LEASE} has no holder, "
            f"or was last renewed at {spec['renewTime']}; kubectl lode doctor says what is wrong"
        )


_CONSEQUENCES: Final = {
    NODES: "nodes that ResourceSlices name are assumed to be ready and to have room",
    PODS: "what pods of other namespaces take on the nodes is not counted",
    RESOURCE_CLAIMS: "devices that claims of other namespaces hold look free",
    DEVICE_TAINT_RULES: "devices tainted by a DeviceTaintRule look untainted",
}
"""The gap in the answer if a kind cannot be listed."""
_NEEDED: Final = (RESOURCE_SLICES, DEVICE_CLASSES)
"""Kinds without which nothing can be explained."""


@dataclass(frozen=True, slots=True)
class ExplainedOutcome:
    """The outcome for a live object, the controller's condition on it, and notes on gaps in the answer."""

    outcome: Outcome
    reported: Condition | None = None
    """The controller's condition on the pod."""
    notes: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it has no devices and would get none now, or the controller says that it waits."""
        return not self.outcome.placed or self.withheld

    @property
    def withheld(self) -> bool:
        """Whether the controller says that the pod waits, though there are devices for it as far as is known here."""
        return self.outcome.result == "placed" and self.reported is not None and self.reported.status == "False"

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        raw = self.outcome.to_json()
        if self.reported:
            raw["controller"] = {
                "status": self.reported.status,
                "reason": self.reported.reason,
                "message": self.reported.message,
                "since": self.reported.since,
            }
        return {**raw, "notes": list(self.notes)}

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""
        parts = [self._result_text()]
        reported = self.reported
        if reported and reported.status == "False":
            message = "just that" if reported.message == self.outcome.verdict.message else reported.message
            parts.append(
                f"The controller says, since {since_text(reported.since, now)} ({reported.reason}):\n  {message}"
            )
        if self.outcome.claims:
            parts.append(table((*DEVICE_HEADER, "HELD BY"), device_rows(self.outcome.claims, consumers=True)))
        parts += [sentence[:1].upper() + sentence[1:] for sentence in self.outcome.closeness]
        parts += _device_conditions(self.outcome)
        return "\n\n".join(parts)

    def _result_text(self) -> str:
        outcome = self.outcome
        subject = f"{outcome.kind} {outcome.namespace}/{outcome.name}"
        where = f"on node {outcome.node}" if outcome.node else "reachable from several nodes"
        match outcome.result:
            case "allocated":
                return f"{subject} has its devices, {where}."
            case "placed" if outcome.taken_back:
                moved = "; ".join(f"on node {lost.node}, {lost.message}" for lost in outcome.taken_back)
                return f"{subject} loses its devices: {moved}. It would get these instead, {where}."
            case "placed" if self.withheld:
                return f"{subject} waits. There are devices for it, {where}, but the controller does not give it these."
            case "placed":
                return f"{subject} has no devices yet; nothing stands in its way, and it would get these now, {where}."
            case "others":
                return f"{subject} asks for no devices of this driver; kube-scheduler decides about it."
        return outcome.wait_text()


def _device_conditions(outcome: Outcome) -> Iterator[str]:
    """The conditions that drivers report for devices that they prepared."""
    for claim in outcome.claims:
        for device in claim.devices:
            for condition in device.get("status", {}).get("conditions") or ():
                reason = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
                state = f"{condition['type']} is {condition['status']}" + (f" ({reason})" if reason else "")
                yield f"Device {device['device']} of pool {device['pool']}: {state}"


class Explainer:
    """Explains objects of one namespace with the rights that ``api`` has.

    Args:
        now: seconds since the epoch.
        settings: of the controller; None for those of the controller that is installed.
    """

    def __init__(self, api: Api, names: Names, namespace: str, now: float, settings: DecisionSettings | None = None):
        self._api = api
        self._settings = settings
        self._names = names
        self._namespace = namespace
        self._now = now

    def explain(self, kind: str, name: str) -> ExplainedOutcome:
        """Explain the ``Pod``, ``ResourceClaim`` or ``Gang`` of that name; the pod or claim that exists if kind is "".

        Raises:
            OperatorFault: none exists, both exist, or something cannot be read; the message says what to do.
        """
        if kind == "Gang":
            return self._gang(name)
        wanted = [resource for resource in (PODS, RESOURCE_CLAIMS) if kind in ("", resource.kind)]
        existing = [
            (resource, obj) for resource in wanted if (obj := get_one(self._api, resource, name, self._namespace))
        ]
        if not existing:
            kinds = " and no ".join(resource.kind for resource in wanted)
            raise OperatorFault(f"no {kinds} {name} in namespace {self._namespace}; choose another namespace with -n")
        if len(existing) > 1:
            raise OperatorFault(f"there is a pod and a claim {name}; write pod/{name} or claim/{name}")
        resource, obj = existing[0]
        return self._pod(obj) if resource == PODS else self._claim(obj)

    def _pod(self, raw: Object) -> ExplainedOutcome:
        pod = self._view(raw)
        names = dict.fromkeys(reference.claim for reference in pod.references if reference.claim)
        claims = [claim for name in names if (claim := get_one(self._api, RESOURCE_CLAIMS, name, self._namespace))]
        has_devices = len(claims) == len(pod.references) and all(map(_is_allocated, claims)) and not pod.gates
        has_devices = has_devices and not (pod.unschedulable and not pod.node_name)
        notes = []
        if pod.terminal or pod.deleting:
            notes = ["the pod has ended" if pod.terminal else "the pod is being deleted"]
        try:
            snapshot = self._snapshot({PODS: [raw], RESOURCE_CLAIMS: claims}, complete=not (has_devices or notes))
        except NoRights as error:
            return self._as_reported(pod, error)
        simulator = Simulator(snapshot, self._now)
        outcome = simulator.pod(pod.key)
        notes += _gang_notes(simulator, snapshot, snapshot.state.gangs.gang_of(pod.key))
        if not outcome.placed:
            notes += _served_before(snapshot, pod)
        notes += _unknown_here(outcome, pod)
        notes += health_notes(raw)
        notes += scheduler_notes(raw)
        if outcome.result == "placed" and self._names.gate in pod.gates:
            notes += leader_note(self._api, self._now)
        return ExplainedOutcome(outcome, pod.allocated, (*notes, *snapshot.notes))

    def _gang(self, name: str) -> ExplainedOutcome:
        """The outcome of all members together; the reason is that of a member that waits."""
        snapshot = self._snapshot({}, complete=True)
        key, state, simulator = f"{self._namespace}/{name}", snapshot.state, Simulator(snapshot, self._now)
        members = [state.pods[pod] for pod in state.gangs.members(key)]
        if not members:
            raise OperatorFault(f"no gang {name} in namespace {self._namespace}; choose another namespace with -n")
        outcomes = [(pod, simulator.pod(pod.key)) for pod in members]
        pod, first = next(((pod, one) for pod, one in outcomes if not one.placed), outcomes[0])
        nodes = dict.fromkeys(one.node for _, one in outcomes if one.node)
        claims = tuple(claim for _, one in outcomes for claim in one.claims)
        outcome = replace(first, kind="Gang", name=name, node=", ".join(nodes), claims=claims)
        notes = (f"members: {', '.join(member.name for member in members)}", *_gang_notes(simulator, snapshot, key))
        return ExplainedOutcome(outcome, pod.allocated, (*notes, *snapshot.notes))

    def _claim(self, raw: Object) -> ExplainedOutcome:
        allocated = _is_allocated(raw)
        snapshot = self._snapshot({RESOURCE_CLAIMS: [raw]}, complete=not allocated)
        state, simulator = snapshot.state, Simulator(snapshot, self._now)
        name = raw["metadata"]["name"]
        key = f"{self._namespace}/{name}"
        notes = ["the claim is being deleted"] if raw["metadata"].get("deletionTimestamp") else []
        if allocated:
            return ExplainedOutcome(simulator.held(key), None, (*notes, *snapshot.notes))
        pods = [state.pods[user] for user in state.pods.using(key)]
        pods = sorted((pod for pod in pods if not (pod.terminal or pod.deleting)), key=lambda pod: rank_of(state, pod))
        if not pods:
            notes.append("no pod uses the claim; this is what one would get that asks for nothing else")
            return ExplainedOutcome(simulator.claim(key), None, (*notes, *snapshot.notes))
        pod = pods[0]
        notes.append(f"it is allocated together with what else its pod {pod.name} asks for")
        outcome = simulator.pod(pod.key)
        notes += _unknown_here(outcome, pod)
        own = tuple(claim for claim in outcome.claims if claim.name == name)
        outcome = replace(outcome, kind="ResourceClaim", name=name, claims=own)
        return ExplainedOutcome(outcome, pod.allocated, (*notes, *snapshot.notes))

    def _as_reported(self, pod: PodView, error: NoRights) -> ExplainedOutcome:
        """The controller's condition as the outcome, for a user without the rights that a decision needs."""
        reported = pod.allocated
        if reported is None or reported.status != "False":
            raise error
        answer = Verdict(reported.reason, reported.message)
        outcome = Outcome("Pod", pod.namespace, pod.name, "waiting", node="", claims=(), verdict=answer)
        return ExplainedOutcome(outcome, reported, (f"{error}; until then this is only what the controller said",))

    def _view(self, raw: Object) -> PodView:
        return pod_from(raw, f"{self._names.driver}/Allocated", self._names.gang)

    def _snapshot(self, known: dict[Resource, list[Object]], *, complete: bool) -> ClusterSnapshot:
        """A snapshot with the objects ``known``, and if ``complete`` with everything a decision depends on.

        Raises:
            NoRights: the user may not list kinds without which nothing can be decided.
        """
        missing: list[MissingRight] = []
        objects = dict(known)
        for resource in DECIDING if complete else ():
            try:
                objects[resource] = list_all(self._api, resource)
            except NoRights as error:
                missing += error.missing
                if resource.namespaced:
                    objects[resource] = self._nearby(resource, known)
        if any(right.resource in _NEEDED for right in missing):
            raise NoRights(missing)
        stored_objects = [obj for resource, listed in objects.items() for obj in stored(resource, listed)]
        more, unread = read_what_may_be_read(self._api) if complete else ([], [])
        assumed = () if any(right.resource == NODES for right in missing) else None
        unread_kinds = [right.resource for right in unread] if complete else VOLUME_RESOURCES
        # Templates say what pods of gangs will ask for that do not exist yet. No claim is made from them here.
        templates = [item.object for item in more if item.resource == RESOURCE_CLAIM_TEMPLATES]
        every = [*stored_objects, *(item for item in more if item.resource != RESOURCE_CLAIM_TEMPLATES)]
        given = self._settings
        settings, notes = (given, ()) if given is not None else settings_of_cluster(self._api, every)
        snapshot = snapshot_of(every, self._names, assumed, unread=unread_kinds, settings=settings)
        for template in templates:
            snapshot.add(RESOURCE_CLAIM_TEMPLATES, template)
        snapshot.notes += notes
        snapshot.notes += [f"{right}: {_CONSEQUENCES[right.resource]}" for right in missing]
        snapshot.notes += consequences(unread, snapshot.state)
        return snapshot

    def _nearby(self, resource: Resource, known: dict[Resource, list[Object]]) -> list[Object]:
        try:
            return list_all(self._api, resource, self._namespace)
        except NoRights:
            return known.get(resource, [])


def _gang_notes(simulator: Simulator, snapshot: ClusterSnapshot, gang: str) -> Iterator[str]:
    """The gang of a pod, and what was found about every domain if it is refused."""
    if not gang:
        return
    terms = snapshot.state.gangs.terms(gang)
    if isinstance(terms, GangTerms):
        size = "" if terms.size is None else f" of {terms.size}"
        exist, later = len(snapshot.state.gangs.members(gang)), known_gang(snapshot.state, gang).later
        start = f"{later} are made when these are ready" if later else f"at least {terms.minimum} start together"
        in_whole = [f"{one.minimum} whole sub-groups of {one.size}" for one in terms.sub_groups if one.minimum]
        among = f", {' and '.join(in_whole)} among them" if in_whole else ""
        yield f"gang {gang}: {exist}{size} members exist, {start}{among}"
    if refusal := simulator.gang(gang).refusal:
        for fit in refusal.why.fits:
            reason = f": {fit.reason}" if fit.reason else ""
            yield f"gang {gang}: {fit.placed} of {fit.needed} members fit in {fit.domain}{reason}"
        if refusal.why.values:
            yield f"gang {gang}: {refusal.why.values}"


def _served_before(snapshot: ClusterSnapshot, pod: PodView) -> Iterator[str]:
    """A note on waiting pods that are served before this one."""
    state = snapshot.state
    ours = state.names.gate
    waiting = [other for other in state.pods.values() if ours in other.gates and not other.deleting]
    own, ranks = rank_of(state, pod), [rank_of(state, other) for other in waiting if other.key != pod.key]
    before = sorted(rank for rank in ranks if rank < own)
    if before:
        count = "1 pod that waits comes" if len(before) == 1 else f"{len(before)} pods that wait come"
        yield f"{count} before it, by priority, then age; the first is {before[0].pod}"


def _unknown_here(outcome: Outcome, pod: PodView) -> Iterator[str]:
    """A note if the controller does not place the pod for a reason that cannot be found again here."""
    if outcome.result == "placed" and knows_more(pod.allocated):
        yield f"the controller knows more than its message says: {ONLY_THE_CONTROLLER}"


def _is_allocated(claim: Object) -> bool:
    return (claim.get("status") or {}).get("allocation") is not None
