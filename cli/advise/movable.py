"""The pods that could move, and what that costs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.cluster import WhatIf
from controller.placement import PodDemand
from controller.reconcile.podclaims import alignments_among, claims_by_entry
from controller.state import PodView, State, epoch_seconds
from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.kube.objects import controller_of
from driver.model import Claim

Price = tuple[float, ...]
"""Compared part by part; less is better: the parts of cards, the highest priority, and then the ages, that of the
oldest pod first."""


@dataclass(frozen=True, slots=True)
class Movable:
    """A pod with devices that could run on another node as well.

    Attributes:
        node: where it runs.
        created: seconds; the larger, the younger.
        claims: its claims with devices, which no other pod uses.
        parts: what it holds of cards, in ``controller.allocation.CARD`` for a whole one.
    """

    pod: PodView
    node: str
    created: float
    claims: tuple[Claim, ...]
    parts: int

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod."""
        return self.pod.key

    @property
    def demand(self) -> PodDemand:
        """The pod as if it was created anew. It evicts nobody."""
        claims = tuple(replace(claim, allocation=None, reserved_for=()) for claim in self.claims)
        return PodDemand(self.key, replace(self.pod.needs, preempts=False), claims)


def movable_pods(state: State, pods: Mapping[str, Object]) -> tuple[list[Movable], dict[str, int]]:
    """Return the pods that could move, by key, and the number of others that hold devices, by the reason why they stay.

    Args:
        pods: the objects, by key.
    """
    found, stay = [], dict[str, int]()
    for key, pod in sorted(state.pods.items()):
        if not pod.node_name or pod.terminal or pod.deleting:
            continue
        claims = tuple(claim for claim in _allocated(state, pod) if state.holds_ours(claim))
        parts = sum(
            sum(state.devices.ledger.card_parts(claim.allocation).values()) for claim in claims if claim.allocation
        )
        if not parts:
            continue
        if reason := _stays(state, pod, pods.get(key)):
            stay[reason] = stay.get(reason, 0) + 1
        else:
            claims = _aligned(state, pod, claims)
            found.append(Movable(pod, pod.node_name, epoch_seconds(pod.created), claims, parts))
    return found, stay


def price_of(pods: Iterable[Movable]) -> Price:
    """Return what it costs to move these pods, at least one."""
    some = list(pods)
    ages = [-one.created for one in sorted(some, key=lambda one: one.created)]
    return (sum(one.parts for one in some), max(one.pod.priority for one in some), *ages)


def end(trial: WhatIf, pods: Sequence[Movable]) -> None:
    """Let these pods end on trial."""
    trial.remove([one.key for one in pods], [claim.uid for one in pods for claim in one.claims])


def _allocated(state: State, pod: PodView) -> Iterator[Claim]:
    for key in pod.claim_keys:
        record = state.claims.get(key)
        if record is not None and record.claim.allocation is not None:
            yield record.claim


def _aligned(state: State, pod: PodView, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Return the claims with what they must have in common if all of them are allocated anew."""
    anew = {entry: replace(claim, allocation=None) for entry, claim in claims_by_entry(state, pod).items()}
    try:
        found = alignments_among(state, anew)
    except InvalidInput:
        return claims
    return tuple(replace(claim, aligned=found.get(claim.uid, ())) for claim in claims)


def _stays(state: State, pod: PodView, raw: Object | None) -> str:
    """Return why the pod cannot move, as a clause about pods; "" if it can."""
    if state.gangs.gang_of(pod.key):
        return "are members of gangs, whose other members need them where they are"
    if any(len(state.pods.using(key)) > 1 for key in pod.claim_keys):
        return "share a claim with other pods"
    if any(not state.holds_ours(claim) for claim in _allocated(state, pod)):
        return "hold devices of other drivers"
    if raw is not None and controller_of(raw, "DaemonSet"):
        return "belong to a DaemonSet, which runs them on their node"
    return ""
