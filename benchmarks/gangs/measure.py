"""Decides the gangs of the benchmark and takes the time."""

import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.allocation import peer
from benchmarks.allocation.ours import ClusterObjects
from benchmarks.gangs import scenario
from benchmarks.gangs.scenario import Question
from benchmarks.profiling import profiled
from controller.__main__ import COLLECTION_THRESHOLDS
from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Member, Memory, SearchOptions, TriedDomains, choose
from controller.placement import Nodes, PodDemand, facts_of
from controller.refusal import Refusal
from controller.state.claims import record_from
from controller.state.kinds import SharedClaims, SharedPods
from controller.state.pods import pod_from
from driver.wire import Json

REPEATS = 5
PATIENCE = 120.0
"""Seconds that the peer may take for all members."""


@dataclass(frozen=True)
class Row:
    """Milliseconds of CPU of decisions: the first one on a new cluster, the median of later ones, and the slowest.

    A decision waits for nothing, so that is the time that it takes on a machine with nothing else to do. As in the
    controller, the cluster is indexed before the first one, which has to find out everything that depends on the gang.
    Before each of the later ones, a node and the devices of another one have changed.

    Attributes:
        placed: members placed.
        peer: milliseconds of kube-scheduler's allocator for all members one by one; None if it did not run.
        peer_placed: how many it placed.
    """

    question: Question
    first: float
    later: float
    slowest: float
    placed: int
    right: bool
    peer: float | None = None
    peer_placed: int = 0


def measure(questions: Sequence[Question], folder: Path, *, with_peer: bool, profile: bool) -> Iterator[Row]:
    """Decide the gangs; clusters are written to ``folder``."""
    for question in questions:
        file = folder / f"{question.state}.jsonl"
        if not file.exists():
            with file.open("w") as out:
                out.writelines(scenario.cluster(question.state))
        yield _measured(question, file, with_peer=with_peer and question.with_peer, profile=profile)


def _measured(question: Question, file: Path, *, with_peer: bool, profile: bool) -> Row:
    objects, fleet, nodes = _loaded(file)
    memory, shared = Memory(), (SharedPods(), SharedClaims())
    # As the controller does when it is ready.
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.collect()
    gc.freeze()
    times: list[float] = []
    answers: list[GangPlan | Refusal[TriedDomains]] = []
    for number in range(question.gangs if question.gangs > 1 else REPEATS + 1):
        asked = _gang(question, number, *shared)
        if number:
            _change(objects, fleet, nodes, number)
        with profiled(profile and number == 1):
            began = time.process_time()
            answers.append(choose(asked, Cluster.unlimited(fleet, nodes), SearchOptions(memory=memory)))
            times.append(1000 * (time.process_time() - began))
        if question.gangs > 1:
            _assume(asked, answers[-1], fleet, nodes)
    later = sorted(times[1:])
    placed = sum(len(answer.placements) for answer in answers if isinstance(answer, GangPlan))
    right = all(isinstance(answer, GangPlan) == question.fits for answer in answers)
    row = Row(
        question,
        times[0],
        later=later[len(later) // 2],
        slowest=max(times),
        placed=placed // max(1, len(answers)),
        right=right,
    )
    return _with_peer(row, file) if with_peer else row


def _loaded(file: Path) -> tuple[ClusterObjects, Fleet, Nodes]:
    objects = ClusterObjects(file)
    fleet, nodes = objects.fleet(), Nodes()
    for number in range(len(objects.nodes)):
        nodes.upsert(facts_of(scenario.node(number)))
    fleet.index()
    return objects, fleet, nodes


def _change(objects: ClusterObjects, fleet: Fleet, nodes: Nodes, number: int) -> None:
    """What happens between two decisions in a cluster that lives: one node publishes its devices anew, and another one
    gets a label."""
    part = objects.slices[number]
    fleet.ledger.upsert_slice(replace(part, generation=part.generation + number))
    facts = facts_of(scenario.node(-number % len(objects.nodes)))
    changed = replace(facts, labels={**facts.labels, "seen": str(number)})
    nodes.upsert(changed)
    fleet.ledger.upsert_node(changed.name, changed.labels)


def _gang(question: Question, number: int, pods: SharedPods, claims: SharedClaims) -> Gang:
    """A new gang, decoded as the controller does."""
    members = []
    for rank, pod in enumerate(scenario.pods(question, number)):
        name = f"worker-{number}-{rank}"
        container = {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "32Gi"}}}
        labels = {"batch.kubernetes.io/job-completion-index": str(rank)}
        raw: Json = {
            "metadata": {"namespace": "bench", "name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": {"containers": [container], **scenario.selector(question, rank)},
        }
        view = pods.shared(pod_from(raw, ""))
        wanted = tuple(claims.shared(record_from(claim)).claim for claim in pod["claims"])
        members.append(Member(PodDemand(view.key, view.needs, wanted), rank))
    return Gang(
        "bench/gang",
        f"uid-{number}",
        tuple(members),
        minimum=len(members),
        levels=question.levels,
        constraints=question.constraints,
    )


def _assume(asked: Gang, answer: GangPlan | Refusal[TriedDomains], fleet: Fleet, nodes: Nodes) -> None:
    demands = {member.demand.key: member.demand for member in asked.members}
    for placement in answer.placements if isinstance(answer, GangPlan) else ():
        demand = demands[placement.pod]
        nodes.count(placement.pod, demand.needs, placement.node)
        for claim, allocation in zip(demand.claims, placement.allocations, strict=True):
            fleet.ledger.assume(claim.uid, allocation)


def _with_peer(row: Row, file: Path) -> Row:
    members = file.with_suffix(".pods")
    members.write_text("".join(json.dumps(pod) + "\n" for pod in scenario.pods(row.question)))
    run = {"pods": str(members), "seconds": PATIENCE, "timeout": peer.TIMEOUT, "patience": PATIENCE}
    (answer,) = peer.ask("allocate", file, [{**run, **peer.SCHEDULER}])
    placed = sum(bool(one.get("node")) for one in answer["answers"])
    return Row(**{**vars(row), "peer": 1000 * answer["seconds"], "peer_placed": placed})
