"""Whom to evict for one pod: pods of low priority hold the cards of 1,000 nodes.

Deciding whom to evict for one pod, and that nobody is evicted for it, without an API server. What is known of each
node is found out before, as it is when the controller starts.
"""

import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.allocation.hardware import CARDS, DRIVER, FABRIC, MODELS, NODE, slices, whole
from benchmarks.allocation.ours import ClusterObjects
from benchmarks.allocation.scenario import held_claim, new_claim, node_name
from benchmarks.allocation.table import lines
from benchmarks.allocation.workloads import request, spec
from benchmarks.gangs.scenario import node
from controller.__main__ import COLLECTION_THRESHOLDS
from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.placement import Needs, Nodes, PodDemand, facts_of
from controller.preemption import Holder, Occupancy, Preemption, preempt, prepare
from driver.names import Names
from driver.quantity import Quantity
from driver.wire import claim_from

NAME = "decisions"
NODES = 1_000
REPEATS = 5
MILLISECONDS = 100
"""The bar, for the first decision, too."""


@dataclass(frozen=True)
class Question:
    """A pod for which somebody may have to go.

    Attributes:
        pods: number of pods on each node, which share all of its cards.
        cards: that the pod asks for.
        victims: number of pods that are expected to go; 0 if none may.
    """

    pods: int
    cards: int
    victims: int

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.cards} of {CARDS} cards"


QUESTIONS = (
    Question(1, 1, 1),
    Question(1, CARDS, 1),
    Question(1, CARDS, 0),
    Question(CARDS, 1, 1),
    Question(CARDS, 4, 4),
    Question(CARDS, CARDS, CARDS),
)


@dataclass(frozen=True)
class Row:
    """Milliseconds of CPU: the first decision, with what it has to find out about the pod, and the slowest later one.

    Attributes:
        victims: number of pods that have to go.
    """

    question: Question
    first: float
    later: float
    victims: int
    proven: bool


def cluster(pods: int) -> Iterator[str]:
    """Classes, nodes, slices and the claims that hold all devices: a line of JSON each."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    named = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": DRIVER}}
    yield json.dumps({**named, "spec": {"selectors": [selector]}}) + "\n"
    text = slices(MODELS[0], whole, DRIVER)
    names, each = Names(DRIVER), CARDS // pods
    for number in range(NODES):
        yield json.dumps(node(number)) + "\n"
        yield text.replace(NODE, node_name(number)).replace(FABRIC, "")
        place = {"request": "cards", "driver": DRIVER, "pool": names.pool(node_name(number))}
        for pod in range(pods):
            held = [{**place, "device": f"gpu-{index}"} for index in range(pod * each, (pod + 1) * each)]
            claim = held_claim(f"low-{number}-{pod}", spec(request(count=each)), held, node_name(number))
            yield json.dumps(claim) + "\n"


def measure(question: Question, folder: Path) -> Row:
    """Decide a few times."""
    file = folder / f"{question.pods}.jsonl"
    if not file.exists():
        with file.open("w") as out:
            out.writelines(cluster(question.pods))
    fleet, nodes, occupancy = _loaded(file, question)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.collect()
    gc.freeze()
    wanted = claim_from(new_claim("important", spec(request(count=question.cards))))
    times = []
    for number in range(REPEATS):
        needs = Needs({"cpu": Quantity.parse("4").nanos}, priority=10, preempts=True)
        pod = PodDemand(f"bench/important-{number}", needs, (replace(wanted, uid=f"important-{number}"),))
        began = time.process_time()
        answer = preempt(pod, occupancy, Cluster.unlimited(fleet, nodes))
        times.append(1000 * (time.process_time() - began))
    victims = len(answer.victims) if isinstance(answer, Preemption) else 0
    proven = answer.least if isinstance(answer, Preemption) else answer.why.decided
    return Row(question, times[0], later=max(times[1:]), victims=victims, proven=proven)


def _loaded(file: Path, question: Question) -> tuple[Fleet, Nodes, Occupancy]:
    objects = ClusterObjects(file)
    fleet, nodes, holders = objects.fleet(), Nodes(), []
    for number in range(len(objects.nodes)):
        nodes.upsert(facts_of(node(number)))
    priority = 0 if question.victims else 10
    for number, claim in enumerate(objects.claims):
        assert claim.allocation is not None
        where = claim.allocation.node_name
        nodes.count(claim.key, Needs({}, priority=priority), where)
        holders.append(Holder(claim.key, claim.uid, where, priority, created=float(number), claims=(claim,)))
    fleet.index()
    occupancy = Occupancy(holders, drivers=(DRIVER,))
    prepare(occupancy, Cluster.unlimited(fleet, nodes))
    return fleet, nodes, occupancy


def table(rows: Sequence[Row]) -> str:
    """Milliseconds of each decision."""
    header = ["pod", "pods of low priority", "victims", "proven", "first ms", "later ms", "bar"]
    return lines(
        header,
        [
            [
                row.question.name,
                f"{NODES * row.question.pods:,}" + ("" if row.question.victims else " of its priority"),
                str(row.victims),
                "yes" if row.proven else "no",
                f"{row.first:.0f}",
                f"{row.later:.0f}",
                verdict(row),
            ]
            for row in rows
        ],
    )


def verdict(row: Row) -> str:
    """``met`` if every decision took at most 100 ms, the first one, too; ``WRONG`` if the answer is wrong."""
    if row.victims != row.question.victims or not row.proven:
        return "WRONG"
    slowest = max(row.first, row.later)
    return "met" if slowest <= MILLISECONDS else f"missed: {slowest:.0f} ms"
