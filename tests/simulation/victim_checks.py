"""Invariants of evictions at the moment when one is decided, by what the controller's process knows then.

Nobody is evicted in vain: without the victim, there is no place for the pod yet. Nobody is evicted whose priority is
higher than needed: there is none either if all of lower priority go that surely may.

Who surely may go follows from the objects alone: no budget selects the pod, it is in no gang, it shares no claim, it
ends in time, and nobody has refused its eviction before. So what is found is wrong, and some of what is wrong is not
found. For gangs, only the victims are looked at, not the places of the members.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from controller.cluster import WhatIf
from controller.placement import PodCheck
from controller.preemption import overdue_at
from controller.state import PodView, State
from controller.writing import NotEvicted, WriteResult, WriteSequence
from controller.writing.steps import EvictPod, PatchClaimStatus
from driver.clock import Clock
from driver.settings import PreemptionSettings
from tests.simulation.decision_checks import is_rest
from tests.simulation.hold_checks import HoldingController


class VictimChecks:
    """Checks the evictions of one controller process.

    Args:
        controller: the process.
        found: what is wrong is added here.
    """

    def __init__(
        self,
        controller: Callable[[], HoldingController],
        clock: Clock,
        found: list[str],
        settings: PreemptionSettings,
    ):
        self._controller = controller
        self._clock = clock
        self._found = found
        self._settings = settings
        self._refused: set[str] = set()
        """The pods (uids) whose eviction was refused; others go in their place for a while."""
        self._tried: set[str] = set()
        """The pods (uids) that had a placement or others evicted before, so that not every node may be open to them."""
        self._looked_at: dict[str, WriteSequence] = {}
        """The last sequence with an eviction for each pod, by uid: what is left of it may be repeated."""

    def hear(self, result: WriteResult) -> None:
        """Take in the result of a write."""
        if isinstance(result.error, NotEvicted):
            self._refused.add(result.error.victim.uid)

    def look(self, sequence: WriteSequence) -> None:
        """Check the evictions of a decision."""
        kind, key = sequence.subject
        state = self._controller().state
        pod = state.pods.get(key) if kind == "pod" else None
        if pod is None:
            return
        is_repeated = is_rest(sequence, self._looked_at.get(pod.uid))
        evicted = [step.target for step in sequence.steps if isinstance(step, EvictPod) and not step.dry_run]
        for target in () if is_repeated else evicted:
            victim = state.pods.get(target.key)
            if victim is not None and victim.uid == target.uid and not victim.deleting:
                problems = self._problems(state, pod, victim)
                self._found += [f"{victim.key} is to be evicted for {pod.key}: {problem}" for problem in problems]
        if evicted:
            self._looked_at[pod.uid] = sequence
        if evicted or any(isinstance(step, PatchClaimStatus) for step in sequence.steps):
            self._tried.add(pod.uid)

    def _problems(self, state: State, pod: PodView, victim: PodView) -> Iterator[str]:
        gang = state.gangs.gang_of(pod.key)
        party = [one for key in state.gangs.members(gang) if (one := state.pods[key]).gates] if gang else [pod]
        least = min((one.priority for one in party), default=pod.priority)
        claims = [record.claim for key in victim.claim_keys if (record := state.claims.get(key)) is not None]
        if victim.priority >= least and (claims or not state.gangs.gang_of(victim.key)):
            yield f"its priority {victim.priority} is not lower than {least}"
        if not all(one.needs.preempts for one in party):
            yield "its preemptionPolicy is Never"
        if victim.is_static:
            yield "it is static, and does not end"
        if victim.grace_seconds > self._settings.longest_grace_seconds:
            yield f"it may take {victim.grace_seconds} s to end"
        if claims and all(any(one.resource == "podgroups" for one in claim.reserved_for) for claim in claims):
            yield "all of its claims last as long as a PodGroup"
        if not gang:
            yield from self._unneeded(state, pod, victim)

    def _unneeded(self, state: State, pod: PodView, victim: PodView) -> Iterator[str]:
        """Why there is a place for the pod without this victim."""
        place = state.kept_places.for_pod(pod.key)
        if place is None:
            yield "no place is kept for it"
            return
        every = [one for one in state.pods.values() if one.uid != victim.uid]
        going = [one for one in every if self._ends_soon(state, one)]
        lower = [one for one in every if one.priority < victim.priority and self._may_go(state, one)]
        is_first = pod.uid not in self._tried and not pod.nominated and not self._holds
        with state.kept_places.open_to([pod.key], pod.priority):
            for node in state.nodes if is_first else (place.node,):
                if _fits_without(state, pod, node, going):
                    yield f"node {node} takes it when those have ended that are ending"
                elif _fits_without(state, pod, node, [*going, *lower]):
                    keys = [one.key for one in lower if one.node_name == node]
                    yield f"node {node} takes it when {keys} have ended, whose priority is lower"

    @property
    def _holds(self) -> bool:
        controller = self._controller()
        return any(True for _ in controller.held_domains) or any(True for _ in controller.held_nodes)

    def _ends_soon(self, state: State, pod: PodView) -> bool:
        if not pod.deleting or not pod.node_name:
            return False
        left = overdue_at(state, pod) - self._clock.monotonic()
        return 0 < left <= self._settings.longest_grace_seconds

    def _may_go(self, state: State, pod: PodView) -> bool:
        """Whether the pod surely may be evicted alone."""
        if (
            pod.deleting
            or not pod.node_name
            or pod.is_static
            or state.gangs.gang_of(pod.key)
            or pod.uid in self._refused
        ):
            return False
        if pod.grace_seconds > self._settings.longest_grace_seconds:
            return False
        return not state.budgets.selecting(pod.namespace, dict(pod.needs.pod.labels)) and all(_own(state, pod))


def _own(state: State, pod: PodView) -> Iterator[bool]:
    """Whether each claim of the pod is its alone, and has only devices of ours, which no other claim has."""
    for key in pod.claim_keys:
        record = state.claims.get(key)
        results = () if record is None or record.claim.allocation is None else record.claim.allocation.results
        ours = all(one.device.driver == state.names.driver and not one.admin_access for one in results)
        users = () if record is None else [user.uid for user in record.claim.reserved_for]
        yield ours and bool(results) and set(users) == {pod.uid} and state.pods.using(key) == (pod.key,)


def _fits_without(state: State, pod: PodView, node: str, gone: Collection[PodView]) -> bool:
    """Whether the node takes the pod once these have ended, as far as they are there."""
    with state.cluster.what_if() as trial:
        _end(trial, state, [one for one in gone if one.node_name == node])
        if not PodCheck(pod.key, pod.needs, state.nodes).passes(node):
            return False
        claims = [state.claims[key].claim for key in pod.claim_keys if key in state.claims]
        if len(claims) < len(pod.claim_keys) or any(claim.allocation is not None for claim in claims):
            return False
        return isinstance(state.devices.allocate(node, state.nodes.labels_of(node), claims), tuple)


def _end(trial: WhatIf, state: State, pods: Iterable[PodView]) -> None:
    """Let these pods end on trial, with the claims that only they use."""
    keys = {pod.key: pod.uid for pod in pods}
    claims = {claim: state.claims.get(claim) for key in keys for claim in state.pods[key].claim_keys}
    free = [
        record.claim.uid
        for claim, record in claims.items()
        if record is not None
        and record.claim.allocation is not None
        and {user.uid for user in record.claim.reserved_for} <= set(keys.values())
        and keys.keys() >= set(state.pods.using(claim))
    ]
    trial.remove(keys, free)
