"""How long gangs wait if they start in the order in which they came, by the rule that chooses their domain.

Gangs arrive over time in a small cluster, each member wants a whole node, and each gang ends after a while; on a
virtual clock, with the real decision. Behind a gang that does not fit, all others wait.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from benchmarks.allocation.hardware import DRIVER
from controller.allocation import Fleet
from controller.cluster import Cluster as WholeCluster
from controller.gangs import Gang, GangPlan, Level, Member, Memory, SearchOptions, choose
from controller.gangs.domains import DomainScore, Figures, Scoring, blocks_lost, score
from controller.placement import Needs, NodeFacts, Nodes, Placement, PodDemand
from driver.model import Claim, ClaimSpec, Device, DeviceClass, NodeScope, Request, Slice, Want
from driver.quantity import NANO

TIGHTEST: Final = "tightest"
"""The rule by which Lode chooses."""
Path = tuple[str, ...]
IB, LEAF = Level("ib", "nodeLabel"), Level("leaf", "nodeLabel", required=False)


@dataclass(frozen=True)
class Shape:
    """A cluster and its gangs.

    Attributes:
        domains: nodes of each domain.
        cards: of each node.
        per_leaf: nodes of each leaf; 0 for none.
        sizes: nodes that a gang wants, each with how often it comes.
    """

    name: str
    domains: tuple[int, ...]
    cards: int
    per_leaf: int
    sizes: Mapping[int, int]

    @property
    def levels(self) -> tuple[Level, ...]:
        """What the gangs ask of the topology."""
        return (IB, LEAF) if self.per_leaf else (IB,)

    def nodes(self) -> Iterator[NodeFacts]:
        """The nodes, ready and empty."""
        for domain, size in enumerate(self.domains):
            for number in range(size):
                name = f"n{domain:02}-{number:02}"
                leaf = {"leaf": f"l{number // self.per_leaf}"} if self.per_leaf else {}
                labels = {"kubernetes.io/hostname": name, "ib": f"d{domain:02}", **leaf}
                yield NodeFacts(name, True, labels=labels, allocatable={"pods": 110 * NANO, "cpu": 64 * NANO})


SHAPES = (
    Shape("8 racks of 18 nodes with 4 cards", (18,) * 8, 4, 0, {1: 8, 2: 6, 4: 4, 8: 2, 16: 1, 18: 2}),
    Shape("8 clusters of 32 nodes with 8 cards", (32,) * 8, 8, 0, {1: 8, 2: 6, 4: 4, 8: 2, 16: 1, 32: 1}),
    Shape("the same with leaves of 8 nodes", (32,) * 8, 8, 8, {1: 8, 2: 6, 4: 4, 8: 2, 16: 1, 32: 1}),
    Shape("clusters of 12, 16, 24, 32 and 48", (12, 16, 24, 32, 48), 8, 0, {1: 6, 3: 4, 5: 4, 8: 3, 12: 2, 24: 1}),
)


def _first(path: Path, sub_domains: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    return 0, (), 0, 0, "", path


def _best(path: Path, sub_domains: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    return 0, (figures.capacity - members,), 0, 0, "", path


def _blocks(path: Path, sub_domains: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    loss = sum(blocks_lost(capacity, members) for capacity in (figures.capacity, *figures.outer_capacities))
    return sub_domains, (loss,), figures.capacity - members, 0, "", path


RULES: Mapping[str, Scoring] = {TIGHTEST: score, "best fit": _best, "first fit": _first, "fewest blocks": _blocks}


@dataclass(frozen=True)
class Arrival:
    """A gang: when it comes, how many nodes it wants, how long it runs (both in mean run times), and its name."""

    came: float
    size: int
    runs: float
    name: str


class Cluster:
    """A cluster in which gangs start and end."""

    def __init__(self, shape: Shape, scoring: Scoring):
        self._shape, self._scoring = shape, scoring
        self._fleet, self._nodes, self._memory = Fleet(), Nodes(), Memory()
        self._whole = WholeCluster.unlimited(self._fleet, self._nodes)
        self._fleet.upsert_class(DeviceClass("gpu", (f'device.driver == "{DRIVER}"',)))
        for facts in shape.nodes():
            devices = tuple(Device(f"gpu-{number}", {}) for number in range(shape.cards))
            pool = f"{facts.name}/{DRIVER}"
            self._fleet.ledger.upsert_node(facts.name, facts.labels)
            self._fleet.ledger.upsert_slice(
                Slice(
                    pool, DRIVER, pool=pool, generation=1, slice_count=1, scope=NodeScope(facts.name), devices=devices
                )
            )
            self._nodes.upsert(facts)
        self._spec = ClaimSpec((Request("gpu", (Want("gpu", "", (), "ExactCount", shape.cards),)),))
        self._needs = Needs({"cpu": 4 * NANO})

    def start(self, one: Arrival) -> Sequence[Placement]:
        """Where the members of the gang run from now on; nowhere if it does not fit."""
        members = tuple(Member(self._demand(f"{one.name}-{number}"), number) for number in range(one.size))
        gang = Gang(one.name, one.name, members, minimum=one.size, levels=self._shape.levels)
        answer = choose(gang, self._whole, SearchOptions(memory=self._memory, scoring=self._scoring))
        if not isinstance(answer, GangPlan):
            return ()
        for placement in answer.placements:
            self._nodes.count(placement.pod, self._needs, placement.node)
            self._fleet.ledger.assume(f"uid-{placement.pod}", placement.allocations[0])
        return answer.placements

    def end(self, placements: Sequence[Placement]) -> None:
        """The members end."""
        for placement in placements:
            self._nodes.discount(placement.pod)
            self._fleet.ledger.forget(f"uid-{placement.pod}")

    def _demand(self, name: str) -> PodDemand:
        return PodDemand(name, self._needs, (Claim("bench", name, f"uid-{name}", self._spec),))


def mean_wait(shape: Shape, scoring: Scoring, arrivals: Sequence[Arrival]) -> float:
    """How long gangs wait on average, as a part of how long they run on average."""
    cluster, waited, ends = Cluster(shape, scoring), 0.0, list[tuple[float, str, Sequence[Placement]]]()
    coming, waiting = deque(arrivals), deque[Arrival]()
    while coming or waiting:
        if not coming or (ends and ends[0][0] <= coming[0].came):
            now, _, placements = heapq.heappop(ends)
            cluster.end(placements)
        else:
            waiting.append(coming.popleft())
            now = waiting[-1].came
            if len(waiting) > 1:
                continue
        while waiting and (placements := cluster.start(waiting[0])):
            gang = waiting.popleft()
            waited += now - gang.came
            heapq.heappush(ends, (now + gang.runs, gang.name, placements))
    return waited / len(arrivals)


def arrivals_of(shape: Shape, load: float, seed: int, gangs: int) -> Iterator[Arrival]:
    """The gangs that come, in order; they want this part of what the cluster has, on average."""
    random, now = Random(f"{shape.name} {load} {seed}"), 0.0
    sizes, weights = [*shape.sizes], [*shape.sizes.values()]
    wanted = sum(size * weight for size, weight in shape.sizes.items()) / sum(weights)
    for number in range(gangs):
        now += random.expovariate(load * sum(shape.domains) / wanted)
        yield Arrival(now, random.choices(sizes, weights)[0], random.expovariate(1), f"gang-{number}")
