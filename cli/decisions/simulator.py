"""Decides about pods and claims as the controller would, on a snapshot. Nothing is written to any cluster.

Pods are decided in the order in which the controller takes them up: by priority, then the oldest first, then by
namespace and name; of equal priority, objects that do not exist yet come last. Every pod placed is part of the state in
which the next one is decided. A gang is decided as a whole when the turn of its first member comes.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from cli.decisions import evictions
from cli.decisions.closeness import closeness_of
from cli.decisions.outcomes import (
    ONLY_THE_CONTROLLER,
    Outcome,
    TakenBack,
    Verdict,
    knows_more,
    outcome_of_claim,
    outcome_of_pod,
    verdict,
)
from cli.decisions.snapshot import ClusterSnapshot
from controller.explaining import AskedNodes, ask_all
from controller.gangs import Gang, GangPlan, SearchOptions, TriedDomains, choose
from controller.preemption import Unevicted
from controller.reconcile import (
    NO_HISTORY,
    DecisionContext,
    PlacementHistory,
    decide,
    decide_gang,
    known_gang,
)
from controller.reconcile.decisions import (
    Decision,
    GangDecision,
    Idle,
    LetGo,
    PlacePod,
    Reason,
    Release,
    TakeBack,
    Wait,
    claim_updates,
    patched_status,
)
from controller.reconcile.history import RELEASE_SECONDS
from controller.reconcile.pods import MOST_SHAPES
from controller.refusal import AskedInVain, Refusal
from controller.state import PodView, State
from controller.waiting import rank_of
from driver.clock import rfc3339
from driver.kube.api import PODS, RESOURCE_CLAIMS, Object
from driver.model import Allocation, Claim
from memoryapi.admission import gate_pod

_MAX_DECISIONS: Final = 8
"""Most decisions about one pod in a row: taking allocations back, avoiding a node, allocating again."""
_MAX_WAIT_SECONDS: Final = 60.0
"""Longest wait of the simulated controller. Everything happens at one moment, so longer waits never end."""
_STEPS: Final = 100_000
"""Steps of a search for the domain of a gang: as many as the controller takes after several tries."""
LATER: Final = 3600.0
"""Seconds after the time stamp of the youngest object; by then the controller would wait for nothing any more."""
_LAST: Final = "~"
"""Sorts after every time stamp."""


def simulate_all(snapshot: ClusterSnapshot) -> tuple[list[Outcome], list[Outcome]]:
    """The outcome for every pending pod, and for every unallocated claim that no pod uses, in order of decision.

    Pods and claims that ask for no devices of our driver are left out, but for pods that ask for resources of device
    plugins which nothing offers: these come last. Adds a note if the controller knows more.

    Raises:
        AsksTooMuch: the allowance of the snapshot is used up.
    """
    simulator = Simulator(snapshot, latest_time(snapshot.state) + LATER)
    pods = simulator.pods()
    state = snapshot.state
    withheld = [one for one in pods if one.result == "placed" and knows_more(state.pods[one.key].allocated)]
    if withheld:
        count = "1 pod" if len(withheld) == 1 else f"{len(withheld)} pods"
        snapshot.notes.append(f"the controller does not place {count} (first {withheld[0].key}): {ONLY_THE_CONTROLLER}")
    claims = [simulator.claim(claim.key) for claim in list(_unused_claims(snapshot))]
    return [*pods, *_unoffered(snapshot)], [outcome for outcome in claims if outcome.result != "others"]


class Simulator:
    """Decides as the controller does, and applies the decisions to the snapshot.

    Args:
        now: seconds since the epoch.
    """

    def __init__(self, snapshot: ClusterSnapshot, now: float):
        self._snapshot = snapshot
        self._state = snapshot.state
        self._now = now
        self._histories: dict[str, PlacementHistory] = {}
        self._seen = min(now, latest_time(snapshot.state))
        """When the objects were as they are: pods that were being deleted then had not outlasted their grace."""
        self._asked = AskedNodes()
        self._refused_shapes = AskedInVain(MOST_SHAPES)
        self._refused: dict[str, Gang] = {}
        """The gangs that no domain takes, as they were asked about."""
        self._for_gangs: dict[str, evictions.Answer] = {}
        """Who would be evicted for each of these."""
        self._in_vain: dict[Hashable, Refusal[Unevicted]] = {}
        """Why nobody would be evicted for pods of a shape and priority."""
        self._gangs: dict[str, tuple[int, GangDecision]] = {}
        """The last decision about each gang, and ``Nodes.generation`` then."""
        self._before: dict[str, Allocation | None] = {}
        """The allocations of claims of gangs before their gang was decided."""

    def pods(self) -> list[Outcome]:
        """The outcomes for all pending pods that ask for devices of our driver, in order."""
        pending = sorted(filter(_may_be_pending, self._state.pods.values()), key=lambda pod: rank_of(self._state, pod))
        outcomes: list[Outcome] = []
        while pending:
            decided = [(pod, self.pod(pod.key)) for pod in pending]
            # What was taken back from one pod may be what an earlier one waits for.
            freed = any(outcome.taken_back for _, outcome in decided)
            retried = [pod for pod, outcome in decided if freed and not outcome.placed]
            is_last_round = len(retried) == len(pending)
            outcomes += [
                outcome for pod, outcome in decided if (is_last_round or pod not in retried) and _is_shown(pod, outcome)
            ]
            pending = [] if is_last_round else retried
        return outcomes

    def pod(self, key: str) -> Outcome:
        """The outcome for one pod."""
        pod = self._state.pods[key]
        claims = [f"{pod.namespace}/{reference.claim}" for reference in pod.references]
        before = {claim: self._allocation(claim) for claim in claims}
        decision, taken_back = self._run(key)
        before |= {claim: self._before[claim] for claim in claims if claim in self._before}
        if isinstance(decision, Idle | LetGo) and not all(map(self._allocation, claims)):
            # The controller reports what is wrong with such a pod only if the pod is gated.
            self._snapshot.add(PODS, gate_pod(self._snapshot.pods[key], self._state.names, {}))
            decision, taken_back = self._run(key)
        chosen = [claim for claim in claims if (now := self._allocation(claim)) and now != before[claim]]
        answer = self._verdict(decision)
        outcome = outcome_of_pod(self._state, self._snapshot.claims, key, answer, chosen=chosen, taken_back=taken_back)
        if not outcome.placed:
            return replace(outcome, preemption=self._preemption(pod, decision))
        return self._with_closeness(outcome, pod.claim_keys) if outcome.result == "placed" else outcome

    def _with_closeness(self, outcome: Outcome, claims: Iterable[str]) -> Outcome:
        return replace(outcome, closeness=tuple(closeness_of(self._state, claims)))

    def _preemption(self, pod: PodView, decision: Decision) -> evictions.Answer | None:
        """Who would be evicted for a pod that waits because no node takes it, or no domain its gang."""
        state, gang = self._state, self._state.gangs.gang_of(pod.key)
        if not evictions.asks(state, pod.priority):
            return None
        self._snapshot.allowance.check()
        if gang:
            wanted = self._refused.get(gang)
            if wanted is None:
                return None
            if gang not in self._for_gangs:
                self._for_gangs[gang] = evictions.for_gang(state, wanted, self._seen)
            return self._for_gangs[gang]
        if not isinstance(decision, Refusal):
            return None
        question = decision.why
        shape = question.shape, pod.priority, state.nodes.generation
        if not question.own and (known := self._in_vain.get(shape)):
            return known
        history = self._histories.get(pod.key, NO_HISTORY)
        context = DecisionContext(max_wait=_MAX_WAIT_SECONDS)
        found = evictions.for_pod(state, pod, self._now, self._seen, history=history, context=context)
        if isinstance(found, Refusal) and not question.own:
            self._in_vain[shape] = found
        return found

    def claim(self, key: str) -> Outcome:
        """The outcome for a pod that asks for this claim and nothing else."""
        probe = gate_pod(_probe(self._state.claims[key].claim), self._state.names, {})
        probe_key = f"{probe['metadata']['namespace']}/{probe['metadata']['name']}"
        self._snapshot.add(PODS, probe)
        decision, _ = self._run(probe_key)
        answer = self._verdict(decision)
        self._state.drop(PODS, probe_key)
        outcome = outcome_of_claim(self._state, self._snapshot.claims, key, answer, isinstance(decision, PlacePod))
        return self._with_closeness(outcome, [key]) if outcome.result == "placed" else outcome

    def held(self, key: str) -> Outcome:
        """The outcome of an allocated claim: its devices."""
        return outcome_of_claim(self._state, self._snapshot.claims, key, Verdict(), chosen=False)

    def _allocation(self, key: str) -> Allocation | None:
        record = self._state.claims.get(key)
        return record.claim.allocation if record else None

    def _run(self, key: str) -> tuple[Decision, tuple[TakenBack, ...]]:
        """Decide about the pod until there is nothing more to do; returns the last decision and what was taken back."""
        if gang := self._state.gangs.gang_of(key):
            return self.gang(gang).members.get(key, Idle()), ()
        taken_back = []
        decision = self._decide(key)
        for _ in range(_MAX_DECISIONS):
            self._apply(key, decision)
            if not isinstance(decision, Release | TakeBack):
                break
            if isinstance(decision, TakeBack):
                taken_back.append(TakenBack(decision.node, decision.message))
            # The time that must pass after a release counts as over.
            history, then = self._histories.get(key, NO_HISTORY), self._now - RELEASE_SECONDS
            self._histories[key] = history.after(decision, then)
            decision = self._decide(key)
        return decision, tuple(taken_back)

    def gang(self, key: str) -> GangDecision:
        """Decide about the gang until there is nothing more to write; returns the last decision."""
        known = self._gangs.get(key)
        if known is not None and known[0] == self._state.nodes.generation:
            return known[1]
        for pod in self._state.gangs.members(key):
            for claim in self._state.pods[pod].claim_keys:
                self._before.setdefault(claim, self._allocation(claim))
        decision = self._decide_gang(key)
        for _ in range(_MAX_DECISIONS):
            changes = [self._apply(pod, one) for pod, one in decision.members.items()]
            for pod, one in decision.members.items():
                history = self._histories.get(pod, NO_HISTORY)
                self._histories[pod] = history.after(one, self._now - RELEASE_SECONDS)
            if not any(changes):
                break
            decision = self._decide_gang(key)
        self._gangs[key] = self._state.nodes.generation, decision
        return decision

    def _decide_gang(self, key: str) -> GangDecision:
        self._snapshot.allowance.check()
        state, gang = self._state, known_gang(self._state, key)

        def chosen(wanted: Gang) -> GangPlan | Refusal[TriedDomains]:
            found = choose(wanted, state.cluster, SearchOptions(_STEPS))
            if isinstance(found, Refusal):
                self._refused[key] = wanted
            return found

        self._refused.pop(key, None)
        self._for_gangs.pop(key, None)

        return decide_gang(
            state,
            gang,
            self._now,
            chosen,
            history_of=lambda pod: self._histories.get(pod, NO_HISTORY),
            context=DecisionContext(max_wait=_MAX_WAIT_SECONDS),
        )

    def _decide(self, key: str) -> Decision:
        self._snapshot.allowance.check()
        history = self._histories.get(key, NO_HISTORY)
        context = DecisionContext(in_vain=self._refused_shapes, max_wait=_MAX_WAIT_SECONDS)
        decision = decide(self._state, key, self._now, history, context)
        if isinstance(decision, Refusal) and decision.why.by_every_node:
            self._refused_shapes.remember(decision.why.shape, self._state.nodes.generation)
        return decision

    def _apply(self, key: str, decision: Decision) -> bool:
        """Apply the decision to the claims; returns whether it changes any."""
        pod = self._state.pods[key]
        consumer, devices = partial(self._state.consumer, pod), self._state.device_statuses
        updates = claim_updates(decision, consumer, devices, rfc3339(self._now))
        for update in updates:
            claim, raw = self._state.claims[update.claim].claim, self._snapshot.claims[update.claim]
            status = patched_status(raw.get("status") or {}, update.status_patch(claim))
            self._snapshot.add(RESOURCE_CLAIMS, {**raw, "status": status})
        return bool(updates)

    def _verdict(self, decision: Decision) -> Verdict:
        refused = decision.nowhere if isinstance(decision, Wait) else decision
        if not isinstance(refused, Refusal):
            return verdict(decision)
        shape = refused.why.shape
        asked = ask_all(self._state, refused, self._asked.reasons_of(shape))
        self._asked.remember(shape, asked.reasons)
        return verdict(decision, asked.reasons, asked.impossible, no_nodes=not self._state.nodes)


def _may_be_pending(pod: PodView) -> bool:
    return not (pod.terminal or pod.deleting) and bool(pod.references or pod.gates)


def _unoffered(snapshot: ClusterSnapshot) -> Iterator[Outcome]:
    """The outcomes of pods that ask for nothing but resources of device plugins which nothing offers."""
    for key, message in snapshot.unoffered.items():
        pod = snapshot.state.pods.get(key)
        if pod and not (pod.terminal or pod.deleting or pod.node_name or pod.references):
            verdict = Verdict(Reason.IMPOSSIBLE.value, message)
            yield Outcome("Pod", pod.namespace, pod.name, "waiting", node="", claims=(), verdict=verdict)


def _is_shown(pod: PodView, outcome: Outcome) -> bool:
    """Whether the pod is pending and asks for devices of our driver."""
    return outcome.result != "others" and not (outcome.result == "allocated" and pod.node_name)


def _unused_claims(snapshot: ClusterSnapshot) -> Iterator[Claim]:
    """The unallocated claims that no pod refers to, oldest first."""
    state = snapshot.state

    def by_age(claim: Claim) -> tuple[str, str, str]:
        created = snapshot.claims[claim.key]["metadata"].get("creationTimestamp")
        return created or _LAST, claim.namespace, claim.name

    unused = (record.claim for key, record in state.claims.items() if not state.pods.using(key))
    for claim in sorted(unused, key=by_age):
        if claim.allocation is None and not claim.deleting:
            yield claim


def _probe(claim: Claim) -> Object:
    """A pod that asks for the claim and nothing else; its name is not valid for a real pod."""
    name = f"({claim.name})"
    return {
        "metadata": {"name": name, "namespace": claim.namespace, "uid": f"{claim.uid} {name}"},
        "spec": {"containers": [], "resourceClaims": [{"name": "claim", "resourceClaimName": claim.name}]},
    }


def latest_time(state: State) -> float:
    """Return the time stamp of the youngest pod or allocation, in seconds since the epoch; 0 without any."""
    allocations = (record.claim.allocation for record in state.claims.values())
    timestamps = {pod.created for pod in state.pods.values()}
    timestamps |= {allocation.timestamp for allocation in allocations if allocation}
    return max((_epoch_seconds(timestamp) for timestamp in timestamps if timestamp), default=0.0)


def _epoch_seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
