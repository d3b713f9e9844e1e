"""What the document of a fleet is made of, as values. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cli.fleetview.fleet import FleetView
from controller.state import ClaimRecord, PodView, State, epoch_seconds
from driver.limits import bounded

PodPhase = Literal["unknown", "waiting", "pending", "running", "ended"]
"""Of a pod: nothing but its name is known; it waits at our gate; it waits for kube-scheduler; it is bound to a node; it
has ended."""
MOST_MESSAGE: Final = 2048
"""Characters of a message that says why a pod waits; ``lode explain`` has all of it."""
MOST_REASON: Final = 256
"""Characters of the reason before it."""


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node.

    Attributes:
        ready: what its condition says.
        open: whether it takes pods: nobody has cordoned it.
    """

    ready: bool
    open: bool


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim for our devices.

    Attributes:
        pods: the names of the pods that it is reserved for.
        since: when it was allocated, in seconds since the epoch; 0 if it was not, or is not known.
    """

    namespace: str
    name: str
    allocated: bool = False
    pods: tuple[str, ...] = ()
    since: int = 0

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ShownPod:
    """A pod that has our devices or waits for some.

    Attributes:
        gang: ``namespace/name``; "" if it is in none.
        awaits: keys of its claims that have no devices yet.
        reason: of the condition that says why it waits; "" if nothing is said.
        since: when that was said first, in seconds since the epoch; 0 if it is not known.
    """

    namespace: str
    name: str
    phase: PodPhase = "unknown"
    node: str = ""
    gang: str = ""
    awaits: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    since: int = 0

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class KindGap:
    """What is not known of a kind, and why.

    Attributes:
        since: when the API last told of the kind (RFC 3339); "" if that does not matter.
    """

    kind: str
    message: str
    since: str = ""


@dataclass(frozen=True, slots=True)
class FleetContents:
    """Everything that the document shows.

    Attributes:
        view: the cards and what is held of them.
        nodes: by name; those that publish cards and are not among them cannot be read.
        gangs: the rows of ``lode top gangs``.
        missing: kinds that may not be read.
        problems: kinds whose reading fails, and whose objects are as they last were.
        notes: what was left out.
    """

    view: FleetView
    nodes: Mapping[str, ShownNode]
    claims: tuple[ShownClaim, ...] = ()
    pods: tuple[ShownPod, ...] = ()
    gangs: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[KindGap, ...] = ()
    problems: tuple[KindGap, ...] = ()
    notes: tuple[str, ...] = ()

    def namespaces(self) -> set[str]:
        """Return the namespaces of everything that has one."""
        found = {one.namespace for card in self.view.cards for one in card.holdings}
        found |= {one.namespace for one in self.claims} | {one.namespace for one in self.pods}
        return found | {one["namespace"] for one in self.gangs}


def shown_pods(state: State) -> Iterator[ShownPod]:
    """Yield the pods that wait at our gate, have claims with our devices, or are members of gangs."""
    for pod in state.pods.values():
        records = (state.claims.get(key) for key in pod.claim_keys)
        gang = state.gangs.gang_of(pod.key)
        if _is_gated(pod, state) or gang or any(one is not None and state.holds_ours(one.claim) for one in records):
            yield _shown_pod(pod, gang, state)


def shown_claims(state: State) -> Iterator[ShownClaim]:
    """Yield the claims that have our devices, and those that pods at our gate wait for."""
    waiting = {key for pod in state.pods.values() if _is_gated(pod, state) for key in pod.claim_keys}
    for key, record in state.claims.items():
        if key in waiting or state.holds_ours(record.claim):
            yield _shown_claim(record)


def _is_gated(pod: PodView, state: State) -> bool:
    return state.names.gate in pod.gates


def _is_allocated(record: ClaimRecord | None) -> bool:
    return record is not None and record.claim.allocation is not None


def _shown_claim(record: ClaimRecord) -> ShownClaim:
    claim = record.claim
    return ShownClaim(
        namespace=claim.namespace,
        name=claim.name,
        allocated=_is_allocated(record),
        pods=tuple(one.name for one in claim.reserved_for if one.is_pod),
        since=int(epoch_seconds(claim.allocation.timestamp)) if claim.allocation else 0,
    )


def _shown_pod(pod: PodView, gang: str, state: State) -> ShownPod:
    phase: PodPhase = "waiting" if _is_gated(pod, state) else "running" if pod.node_name else "pending"
    reason, message, since = "", "", ""
    if phase == "waiting" and pod.allocated and pod.allocated.status == "False":
        reason, message, since = pod.allocated.reason, pod.allocated.message, pod.allocated.since
    elif phase == "pending" and pod.unschedulable:
        reason, message = "Unschedulable", pod.unschedulable
    return ShownPod(
        namespace=pod.namespace,
        name=pod.name,
        phase="ended" if pod.terminal else phase,
        node=pod.node_name,
        gang=gang or "",
        awaits=tuple(key for key in pod.claim_keys if not _is_allocated(state.claims.get(key))),
        reason=bounded(reason, MOST_REASON),
        message=bounded(message, MOST_MESSAGE),
        since=int(epoch_seconds(since)) if since else 0,
    )
