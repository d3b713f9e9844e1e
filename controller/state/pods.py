"""Pods: the part of each that decisions depend on, by key and by claim. Pure.

Also known are those that kube-scheduler ends, and when those with gates of others were opened.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller.membership import GangHints, hints_of, rank_of_pod
from controller.placement import Needs, needs_of
from controller.state.times import NEVER
from driver.names import DEFAULT_SCHEDULER, Names
from driver.wire import Json
from driver.wire.fields import integer, text

_GRACE_SECONDS: Final = 30
"""Default of ``spec.terminationGracePeriodSeconds``."""


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """An entry of ``spec.resourceClaims``."""

    entry: str
    claim: str
    """Name of the ResourceClaim; "" while the pod's status does not record the one created from the template."""
    template: str = ""
    """Name of the ResourceClaimTemplate that the claim is created from; "" for a claim named in the pod."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the pod's conditions."""

    status: str
    reason: str
    message: str
    since: str
    """``lastTransitionTime`` of the condition."""
    opened: str = ""
    """``lastProbeTime``. In our own condition: see ``Openings.opened``."""


@dataclass(frozen=True, slots=True)
class PodView:
    """The part of a Pod object that decisions depend on."""

    namespace: str
    name: str
    uid: str
    node_name: str
    gates: tuple[str, ...]
    terminal: bool
    deleting: bool
    references: tuple[ClaimReference, ...]
    needs: Needs
    allocated: Condition | None
    """Our own condition on the pod."""
    unschedulable: str
    """kube-scheduler's message if it found no node for the pod since the pod's devices were last allocated, else "".

    It is the message of the condition PodScheduled with reason Unschedulable, unless the pod has gates or the condition
    has a ``lastProbeTime``. The controller sets that field when it allocates devices for a pod that was found
    unschedulable before. kube-scheduler leaves the field out whenever it writes the condition, and it compares the
    field to find out whether it has to write (k8s.io/kubernetes pkg/api/v1/pod, UpdatePodCondition). So the field tells
    an old message from a new one with the same words; ``lastTransitionTime`` and ``observedGeneration`` do not.
    """
    wishes_node: bool
    """True if the condition PodScheduled tells autoscalers, although the pod has gates, that no node takes it.

    kube-scheduler never says so about a pod with gates: only this controller does (``controller.autoscaling.newnodes``,
    ``Wait.unschedulable``).
    """
    nominated: str
    """``status.nominatedNodeName``."""
    created: str
    """``metadata.creationTimestamp``."""
    priority: int
    """``spec.priority``; 0 if there is none."""
    preempted: bool
    """True if kube-scheduler ends the pod to make room for another one (condition DisruptionTarget)."""
    gang: GangHints | None = None
    """The gang hints of the pod itself; None if it can be in no gang."""
    rank: int | None = None
    """The pod's place among the members of its gang, if a label says it."""
    succeeded: bool = False
    """True if all its containers have ended with success."""
    limit_seconds: int | None = None
    """Longest time from its start to its end: ``spec.activeDeadlineSeconds`` and then its grace period; None if it has
    no deadline."""
    asked_to_end: str = ""
    """When the pod was told to end (RFC 3339): ``metadata.deletionTimestamp`` without the grace period; "" if never."""
    grace_seconds: int = 0
    """The grace period that it got then; before, the one that it asks for (``spec.terminationGracePeriodSeconds``)."""
    priority_class: str = ""
    """``spec.priorityClassName``."""
    scheduler: str = DEFAULT_SCHEDULER
    """``spec.schedulerName``."""
    is_static: bool = False
    """True if it stands for a static pod of its node (``kubernetes.io/config.mirror``)."""
    starting: bool = False
    """True in the phase Pending: budgets do not count for its eviction."""
    ready: bool = True
    """Its condition Ready, which budgets depend on."""
    started: str = ""
    """``status.startTime`` of a pod with a deadline, which counts from then; "" if the kubelet has not accepted it."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """``namespace/name`` of the claims known so far, each once: several entries may name one claim."""
        keys = (f"{self.namespace}/{reference.claim}" for reference in self.references if reference.claim)
        return tuple(dict.fromkeys(keys))


def pod_from(raw: Json, condition_type: str, gang_label: str = Names().gang) -> PodView:
    """Return the view of a Pod object.

    ``condition_type`` is the type of our own condition, ``gang_label`` our label.

    Raises:
        InvalidInput: a quantity that the API server would not have accepted.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    unschedulable = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    gates = tuple(text(gate["name"]) for gate in spec.get("schedulingGates") or ())
    judged = unschedulable and not gates and not scheduled.get("lastProbeTime")
    disrupted = conditions.get("DisruptionTarget") or {}
    own = conditions.get(condition_type)
    gang = hints_of(raw, gang_label)
    return PodView(
        namespace=text(metadata["namespace"]),
        name=text(metadata["name"]),
        uid=text(metadata["uid"]),
        node_name=text(spec.get("nodeName")),
        gates=gates,
        terminal=status.get("phase") in ("Succeeded", "Failed"),
        deleting=bool(metadata.get("deletionTimestamp")),
        references=_references(spec, status),
        needs=needs_of(raw),
        allocated=_condition(own) if own else None,
        unschedulable=(text(scheduled.get("message")) or "no reason given") if judged else "",
        wishes_node=unschedulable and bool(gates),
        nominated=text(status.get("nominatedNodeName")),
        created=text(metadata.get("creationTimestamp")),
        priority=integer(spec.get("priority")),
        preempted=disrupted.get("status") == "True" and disrupted.get("reason") == "PreemptionByScheduler",
        gang=gang,
        rank=rank_of_pod(raw) if gang else None,
        succeeded=status.get("phase") == "Succeeded",
        limit_seconds=_limit(spec),
        asked_to_end=_asked_to_end(metadata),
        grace_seconds=_grace(metadata, spec),
        priority_class=text(spec.get("priorityClassName")),
        is_static="kubernetes.io/config.mirror" in (metadata.get("annotations") or {}),
        starting=status.get("phase") == "Pending",
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        scheduler=text(spec.get("schedulerName")) or DEFAULT_SCHEDULER,
        started=text(status.get("startTime")) if spec.get("activeDeadlineSeconds") else "",
    )


def _asked_to_end(metadata: Json) -> str:
    ends = metadata.get("deletionTimestamp")
    if not ends:
        return ""
    grace = timedelta(seconds=integer(metadata.get("deletionGracePeriodSeconds")))
    return (datetime.fromisoformat(ends) - grace).isoformat()


def _grace(metadata: Json, spec: Json) -> int:
    if metadata.get("deletionTimestamp"):
        return integer(metadata.get("deletionGracePeriodSeconds"))
    asked = spec.get("terminationGracePeriodSeconds")
    return _GRACE_SECONDS if asked is None else integer(asked)


def _limit(spec: Json) -> int | None:
    deadline = integer(spec.get("activeDeadlineSeconds"))
    return deadline + _grace({}, spec) if deadline else None


def _condition(raw: Json) -> Condition:
    return Condition(
        text(raw["status"]),
        text(raw.get("reason")),
        text(raw.get("message")),
        text(raw.get("lastTransitionTime")),
        text(raw.get("lastProbeTime")),
    )


def _references(spec: Json, status: Json) -> tuple[ClaimReference, ...]:
    created = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    references = []
    for entry in spec.get("resourceClaims") or ():
        name = text(entry["name"])
        if direct := text(entry.get("resourceClaimName")):
            references.append(ClaimReference(name, direct))
        elif (template := text(entry.get("resourceClaimTemplateName"))) and not (name in created and not created[name]):
            # An entry recorded without a name needs no claim (core/v1 PodResourceClaimStatus).
            references.append(ClaimReference(name, text(created.get(name)), template))
    return tuple(references)


class Openings:
    """Pods that scheduling gates of others hold or held, and the time from which the latter could be served.

    The API does not record when a gate was removed. The newest creation time stamp of the pods and claims known at that
    moment stands for it: the pod comes after all of these, whatever the clock of this machine says. The pod's condition
    keeps it for later runs of the program.

    Args:
        gate: our own.
        now: seconds, as decisions are given them. What is remembered of them ends with this run of the program.
    """

    def __init__(self, gate: str = Names().gate, now: Callable[[], float] = lambda: NEVER) -> None:
        self._gate = gate
        self._now = now
        self._newest = ""
        self._held: set[str] = set()
        self._opened: dict[str, str] = {}
        self._moments: dict[str, float] = {}

    def exists(self, created: str) -> None:
        """Note that there is a pod or claim with this creation time stamp."""
        self._newest = max(self._newest, created)

    def upsert(self, pod: PodView) -> None:
        """Note a pod that was added or has changed."""
        self.exists(pod.created)
        if any(gate != self._gate for gate in pod.gates):
            self._held.add(pod.key)
        elif pod.key in self._held:
            self._held.discard(pod.key)
            self._opened[pod.key] = self._newest
            self._moments[pod.key] = self._now()

    def remove(self, pod: str) -> None:
        """Forget a pod that does not exist any more."""
        self._held.discard(pod)
        self._opened.pop(pod, None)
        self._moments.pop(pod, None)

    def is_held(self, pod: PodView) -> bool:
        """Return whether gates of others hold the pod."""
        return pod.key in self._held

    def moment(self, pod: PodView) -> float:
        """Return when the last gate of others was removed from the pod (seconds); long ago if that was not seen."""
        return self._moments.get(pod.key, NEVER)

    def opened(self, pod: PodView) -> str:
        """Return the creation time stamp after which the pod could be served; "" if gates of others never held it."""
        return self._opened.get(pod.key) or (pod.allocated.opened if pod.allocated else "")


class Pods(Mapping[str, PodView]):
    """All pods by key (``namespace/name``), indexed by the claims they refer to.

    Attributes:
        openings: the pods that gates of others hold or held, and from when the latter could be served.
    """

    def __init__(self, names: Names | None = None, now: Callable[[], float] = lambda: NEVER) -> None:
        self.openings = Openings((names or Names()).gate, now)
        self._pods: dict[str, PodView] = {}
        self._preempted: dict[str, dict[str, None]] = {}
        self._by_claim: dict[str, dict[str, None]] = {}

    def __getitem__(self, key: str) -> PodView:
        return self._pods[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def using(self, claim: str) -> Sequence[str]:
        """Return the keys of the pods that refer to the claim ``claim`` (namespace/name)."""
        return tuple(self._by_claim.get(claim, ()))

    def preempted_on(self, node: str, priority: int) -> Sequence[str]:
        """Return the keys of pods below ``priority`` that kube-scheduler ends on the node, and that have not ended."""
        return [key for key in self._preempted.get(node, ()) if self._pods[key].priority < priority]

    def upsert(self, pod: PodView) -> None:
        """Add or replace a pod."""
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        self.openings.upsert(pod)
        self._index_preempted(before, pod)
        if before is None or before.claim_keys != pod.claim_keys:
            if before is not None:
                self._unindex(before)
            for claim in pod.claim_keys:
                self._by_claim.setdefault(claim, {})[pod.key] = None

    def remove(self, key: str) -> PodView | None:
        """Remove a pod and return it; None if it is not known."""
        pod = self._pods.pop(key, None)
        self.openings.remove(key)
        if pod is not None:
            self._unindex(pod)
            self._index_preempted(pod, None)
        return pod

    def _index_preempted(self, before: PodView | None, after: PodView | None) -> None:
        if before is not None and before.preempted:
            self._preempted.get(before.node_name, {}).pop(before.key, None)
            if not self._preempted.get(before.node_name):
                self._preempted.pop(before.node_name, None)
        if after is not None and after.preempted and not after.terminal:
            self._preempted.setdefault(after.node_name, {})[after.key] = None

    def _unindex(self, pod: PodView) -> None:
        for claim in pod.claim_keys:
            users = self._by_claim.get(claim, {})
            users.pop(pod.key, None)
            if not users:
                self._by_claim.pop(claim, None)
