"""What a burst of equal preemptors costs the thread that decides: the whole controller, on the API in memory.

All nodes are full of pods of low priority. Measured is the CPU of everything that thread does, taking in what has
changed as well as deciding, from the moment when the first of the burst is seen until all have their cards.
"""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from benchmarks.allocation.table import lines
from benchmarks.wholeloop import CARDS, NAMES, NAMESPACE, WholeLoop
from controller.__main__ import COLLECTION_THRESHOLDS
from driver.kube.api import PODS, RESOURCE_CLAIMS
from driver.settings import ControllerSettings, PreemptionSettings, Settings

NAME = "burst"
NODES = 5_000
SECONDS = 2.0
"""What a burst may cost in all."""
_HIGH = 1_000
_PATIENCE = 10.0
"""Seconds of the virtual clock in which all victims are evicted, and in which all of the burst are served then."""


@dataclass(frozen=True)
class Burst:
    """Equal pods that are created at once.

    Attributes:
        pods: how many they are.
        cards: that each asks for.
        victims: number of pods of low priority on each node, which share all of its cards.
    """

    pods: int
    cards: int
    victims: int

    @property
    def expected(self) -> int:
        """How many have to go."""
        return ceil(self.pods * self.cards * self.victims / CARDS)


BURSTS = (Burst(100, CARDS, 1), Burst(100, 1, 1))


@dataclass(frozen=True)
class Cost:
    """What a burst cost.

    Attributes:
        seconds: CPU of the deciding thread.
        evicted: number of pods that had to go.
        served: number of the burst without their gate at the end.
    """

    burst: Burst
    seconds: float
    evicted: int
    served: int


class _Cluster(WholeLoop):
    """Nodes that are full of pods of low priority."""

    def __init__(self, nodes: int, victims: int):
        preemption = PreemptionSettings(enabled=True)
        super().__init__(Settings(controller=ControllerSettings(preemption=preemption)))
        for number in range(nodes):
            self.add_node(f"node-{number}")
            for one in range(victims):
                self._add_victim(f"low-{number}-{one}", f"node-{number}", one, CARDS // victims)
        self.start()

    def _add_victim(self, name: str, node: str, number: int, cards: int) -> None:
        """A pod that runs, and a claim for its cards."""
        made = self.add_pod(name, cards, priority=0, nodeName=node)
        place = {"request": "cards", "driver": NAMES.driver, "pool": NAMES.pool(node)}
        held = [{**place, "device": f"gpu-{card}"} for card in range(number * cards, (number + 1) * cards)]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        claim = self.api.get(RESOURCE_CLAIMS, name, NAMESPACE)
        claim["status"] = {
            "allocation": {"devices": {"results": held}, "nodeSelector": {"nodeSelectorTerms": terms}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
        }
        self.api.update(RESOURCE_CLAIMS, claim, "status")

    def add(self, burst: Burst) -> None:
        """All of the burst come."""
        for number in range(burst.pods):
            self.add_pod(f"high-{number}", burst.cards, priority=_HIGH)

    def end_victims(self) -> int:
        """All that were evicted end, and their claims are cleared. Returns how many."""
        gone = [
            pod["metadata"]["name"] for pod in self.api.list(PODS).items if pod["metadata"].get("deletionTimestamp")
        ]
        for name in gone:
            self.api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
            claim = self.api.get(RESOURCE_CLAIMS, name, NAMESPACE)
            claim["status"] = {}
            self.api.update(RESOURCE_CLAIMS, claim, "status")
        return len(gone)

    def served(self) -> int:
        """How many of the burst have no gate."""
        pods = self.controller.state.pods.values()
        return sum(not pod.gates for pod in pods if pod.priority == _HIGH)


def costs(bursts: Sequence[Burst] = BURSTS, nodes: int = NODES) -> Iterator[Cost]:
    """Let each burst come, each on a cluster of its own."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    for burst in bursts:
        cluster = _Cluster(nodes, burst.victims)
        cluster.settle(_PATIENCE)
        gc.collect()
        gc.freeze()
        cluster.add(burst)
        cluster.seconds = 0.0
        cluster.settle(_PATIENCE)
        evicted = cluster.end_victims()
        cluster.settle(_PATIENCE)
        yield Cost(burst, cluster.seconds, evicted, cluster.served())
        gc.unfreeze()


def table(made: Sequence[Cost]) -> str:
    """Seconds of CPU of each burst."""
    header = ["each wants", "burst", "pods on a node", "evicted", "served", "whole loop, s", "bar"]
    rows = [
        [
            f"{one.burst.cards} of {CARDS} cards",
            f"{one.burst.pods} pods",
            str(one.burst.victims),
            str(one.evicted),
            str(one.served),
            f"{one.seconds:.2f}",
            verdict(one),
        ]
        for one in made
    ]
    return lines(header, rows)


def verdict(one: Cost) -> str:
    """``met`` if the burst cost at most two seconds; ``WRONG`` if not all were served, or others had to go."""
    if one.served != one.burst.pods or one.evicted != one.burst.expected:
        return "WRONG"
    return "met" if one.seconds <= SECONDS else f"missed: {one.seconds:.1f} s"
