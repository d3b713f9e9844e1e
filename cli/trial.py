"""What the controller would do to pods, carried out on its state alone: nothing is written to any cluster.

The order is that in which the controller takes pods up: oldest first, then by namespace and name; objects that do not
exist yet come last. Every pod placed is part of the state in which the next one is decided.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from cli.outcomes import Outcome, TakenBack, Verdict, of_claim, of_pod, verdict
from cli.world import World
from controller.decisions import Decision, Idle, Past, Place, Release, TakeBack
from controller.pods import PodView
from controller.reconcile import RELEASE_SECONDS, decide
from controller.records import ClaimRecord
from controller.state import State
from driver.clock import rfc3339
from driver.kube.api import PODS, RESOURCE_CLAIMS, Object
from driver.model import Allocation, Claim, Consumer
from driver.wire import allocation_to, consumer_to
from memoryapi.admission import gate_pod

_ROUNDS: Final = 8
"""Decisions about one pod in a row: taking back, avoiding a node, placing anew."""
_LATER: Final = 3600.0
"""Seconds after the youngest object; by then every patience has ended."""
_NEVER: Final = float("inf")
_LAST: Final = "~"
"""Sorts after every timestamp."""


def run(world: World) -> tuple[list[Outcome], list[Outcome]]:
    """What becomes of every pending pod, and of every unallocated claim that no pod uses, in order of decision.

    Pods and claims that ask for no devices of ours are left out.
    """
    trial = Trial(world, _latest(world.state) + _LATER)
    pods = trial.pods()
    claims = [trial.claim(claim.key) for claim in list(_unused(world.state))]
    return pods, [outcome for outcome in claims if outcome.result != "others"]


class Trial:
    """Decides and carries out on the world's state.

    Args:
        now: seconds since the epoch.
    """

    def __init__(self, world: World, now: float):
        self._world = world
        self._state = world.state
        self._now = now
        self._past: dict[str, Past] = {}

    def pods(self) -> list[Outcome]:
        """All pending pods that ask for devices of ours, in order."""
        waiting = sorted(filter(_undecided, self._state.pods.values()), key=order)
        outcomes: list[Outcome] = []
        while waiting:
            told = [(pod, self.pod(pod.key)) for pod in waiting]
            # What was taken back may be what a pod before it waits for.
            freed = any(outcome.taken_back for _, outcome in told)
            again = [pod for pod, outcome in told if freed and not outcome.placed]
            last = len(again) == len(waiting)
            outcomes += [outcome for pod, outcome in told if (last or pod not in again) and _is_news(pod, outcome)]
            waiting = [] if last else again
        return outcomes

    def pod(self, key: str) -> Outcome:
        """What becomes of one pod."""
        pod = self._state.pods[key]
        keys = [f"{pod.namespace}/{reference.claim}" for reference in pod.references]
        before = {claim: self._allocation(claim) for claim in keys}
        decision, taken_back = self._settle(key)
        if isinstance(decision, Idle) and not all(map(self._allocation, keys)):
            # Nothing tells the controller that such a pod is ours, unless it is gated: then it says what is wrong.
            self._world.put(PODS, gate_pod(self._world.pods[key], self._state.names, {}))
            decision, taken_back = self._settle(key)
        chosen = [claim for claim in keys if (now := self._allocation(claim)) and now != before[claim]]
        return of_pod(self._state, key, verdict(self._state, decision), chosen, taken_back)

    def claim(self, key: str) -> Outcome:
        """What a pod would get that asks for this claim and nothing else."""
        pod = gate_pod(_probe(self._state.claims[key].claim), self._state.names, {})
        self._world.put(PODS, pod)
        probed = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        decision, _ = self._settle(probed)
        told = verdict(self._state, decision)
        self._state.drop(PODS, probed)
        return of_claim(self._state, key, told, isinstance(decision, Place))

    def held(self, key: str) -> Outcome:
        """What an allocated claim holds."""
        return of_claim(self._state, key, Verdict(), chosen=False)

    def _allocation(self, key: str) -> Allocation | None:
        record = self._state.claims.get(key)
        return record.claim.allocation if record else None

    def _settle(self, key: str) -> tuple[Decision, tuple[TakenBack, ...]]:
        """Decide about the pod until nothing more can be done, as ``controller.loop`` does, and the last decision."""
        past, taken_back = self._past.get(key, Past()), []
        decision = decide(self._state, key, self._now, past)
        for _ in range(_ROUNDS):
            match decision:
                case Place():
                    self._place(self._state.pods[key], decision)
                    break
                case Release(claims):
                    for claim in claims:
                        self._release(claim, self._state.pods[key].uid)
                    past = replace(past, released=self._now - RELEASE_SECONDS)
                case TakeBack(claims, node, message, refused):
                    for claim in claims:
                        self._write(claim, {})
                    taken_back.append(TakenBack(node, message))
                    past = Past(past.refusals + 1, {**past.avoid, node: _NEVER}) if refused else past
                case _:
                    break
            self._past[key] = past
            decision = decide(self._state, key, self._now, past)
        return decision, tuple(taken_back)

    def _place(self, pod: PodView, decision: Place) -> None:
        consumer = consumer_to(Consumer("pods", pod.name, pod.uid))
        for key, allocation in decision.allocations:
            self._write(key, {"allocation": self._stamped(allocation), "reservedFor": [consumer]})
        for key in decision.reserve:
            status = self._state.claims[key].raw["status"]
            self._write(key, {**status, "reservedFor": [*(status.get("reservedFor") or ()), consumer]})

    def _stamped(self, allocation: Allocation) -> Object:
        return allocation_to(replace(allocation, timestamp=rfc3339(self._now)))

    def _release(self, key: str, uid: str) -> None:
        status = self._state.claims[key].raw["status"]
        kept = [consumer for consumer in status.get("reservedFor") or () if consumer["uid"] != uid]
        self._write(key, {**status, "reservedFor": kept})

    def _write(self, key: str, status: Object) -> None:
        self._world.put(RESOURCE_CLAIMS, {**self._state.claims[key].raw, "status": status})


def order(pod: PodView) -> tuple[str, str, str]:
    """By which the controller takes pods up; those that do not exist yet come last."""
    return pod.created or _LAST, pod.namespace, pod.name


def _undecided(pod: PodView) -> bool:
    return not (pod.terminal or pod.deleting) and bool(pod.references or pod.gates)


def _is_news(pod: PodView, outcome: Outcome) -> bool:
    """Whether the pod is pending and ours: one that runs with its devices, or asks for none, is not told of."""
    return outcome.result != "others" and not (outcome.result == "allocated" and pod.node_name)


def _unused(state: State) -> Iterator[Claim]:
    """The unallocated claims that no pod refers to, oldest first."""

    def by_age(record: ClaimRecord) -> tuple[str, str, str]:
        metadata = record.raw["metadata"]
        return metadata.get("creationTimestamp") or _LAST, metadata["namespace"], metadata["name"]

    for record in sorted((record for key, record in state.claims.items() if not state.pods_of(key)), key=by_age):
        if record.claim.allocation is None and not record.claim.deleting:
            yield record.claim


def _probe(claim: Claim) -> Object:
    """A pod that asks for the claim and nothing else; no real pod can have its name."""
    name = f"({claim.name})"
    return {
        "metadata": {"name": name, "namespace": claim.namespace, "uid": f"{claim.uid} {name}"},
        "spec": {"containers": [], "resourceClaims": [{"name": "claim", "resourceClaimName": claim.name}]},
    }


def _latest(state: State) -> float:
    allocations = (record.claim.allocation for record in state.claims.values())
    stamps = {pod.created for pod in state.pods.values()} | {one.timestamp for one in allocations if one}
    return max((_seconds(stamp) for stamp in stamps if stamp), default=0.0)


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
