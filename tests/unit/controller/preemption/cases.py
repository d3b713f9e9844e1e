"""Small clusters with holders of devices, in few words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.allocation import Fleet
from controller.cluster import Cluster as WholeCluster
from controller.gangs import Gang, Level, Member
from controller.placement import Needs, NodeFacts, Nodes, PodDemand, PodLabels
from controller.placement.needs import HostPort
from controller.preemption import Holder, Occupancy, Preemption, Unevicted, preempt
from controller.preemption.occupancy import RunningGang
from controller.refusal import Refusal
from driver.model import Claim, Consumer, Device
from driver.quantity import Quantity
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, memory, pool, want

CPU = Quantity.parse("1").nanos
NO_LABELS = PodLabels()
WHOLE, HALF, THIRD, PART, SMALL = "whole", "half", "third", "part", "small"
KINDS = {
    WHOLE: want("gpu"),
    HALF: want("share", capacity={"memory": "12Gi"}),
    THIRD: want("share", capacity={"memory": "8Gi"}),
    PART: want("mig", 'device.attributes["lode.dev"].profile == "part"'),
    SMALL: want("mig", 'device.attributes["lode.dev"].profile == "small"'),
}


def asked(*kinds: str, name: str = "c") -> Claim:
    """One claim for devices of these kinds."""
    return claim(*(KINDS[kind] for kind in kinds), name=name)


@dataclass
class Cluster:
    """Nodes n1, n2, ... with so many cards. Each is offered whole, shared, and as partitions of two sizes."""

    cards: Sequence[int]
    cpus: int = 100
    pods: int = 100
    fleet: Fleet = field(init=False)
    nodes: Nodes = field(init=False)
    holders: dict[str, Holder] = field(default_factory=dict)
    gangs: dict[str, RunningGang] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet, self.nodes = fleet(), Nodes()
        for number, count in enumerate(self.cards, start=1):
            name = f"n{number}"
            self.fleet.ledger.upsert_node(name, {})
            devices = [one for card in range(count) for one in _devices(card)]
            sets = {f"c{card}": {"memory": 8, "compute": 7} for card in range(count)}
            for part in pool(*devices, sets=sets, node=name):
                self.fleet.ledger.upsert_slice(part)
            amounts = {"pods": self.pods * CPU, "cpu": self.cpus * CPU}
            labels = {"host": name, "rack": "odd" if number % 2 else "even"}
            self.nodes.upsert(NodeFacts(name, ready=True, labels=labels, allocatable=amounts))

    @property
    def whole(self) -> WholeCluster:
        """What decisions are asked with."""
        return WholeCluster.unlimited(self.fleet, self.nodes)

    def hold(
        self,
        name: str,
        *kinds: str,
        node: str = "n1",
        priority: int = 0,
        created: float = 0,
        cpus: int = 0,
        ports: tuple[HostPort, ...] = (),
        claims: Sequence[Claim] = (),
        labels: PodLabels = NO_LABELS,
        **more: object,
    ) -> bool:
        """Let a pod hold devices on a node: one claim of its own, or these. Returns whether it fits."""
        own = list(claims)
        if kinds:
            found = self.fleet.allocate(node, {}, [asked(*kinds, name=name)])
            if not isinstance(found, tuple):
                return False
            own.append(
                replace(
                    asked(*kinds, name=name), allocation=found[0], reserved_for=(Consumer("pods", name, f"uid-{name}"),)
                )
            )
        for one in own:
            self.fleet.ledger.upsert_claim(one)
        needs = Needs({"cpu": cpus * CPU} if cpus else {}, ports, pod=labels, priority=priority)
        self.nodes.count(f"ns/{name}", needs, node)
        holder = Holder(f"ns/{name}", f"uid-{name}", node, priority, created, tuple(own), **more)  # type: ignore[arg-type]
        self.holders[name] = holder
        return True

    def change(self, name: str, **fields: object) -> None:
        """Change fields of a holder."""
        self.holders[name] = replace(self.holders[name], **fields)  # type: ignore[arg-type]

    @property
    def occupancy(self) -> Occupancy:
        return Occupancy(tuple(self.holders.values()), self.gangs, self.budgets)

    def preempt(self, pod: PodDemand | Gang, trials: int | None = None) -> Preemption | Refusal[Unevicted]:
        before = self.fleet.ledger.usage_snapshot(), self.fleet.ledger.free_counters(), self.versions
        answer = preempt(pod, self.occupancy, self.whole, trials)
        assert (self.fleet.ledger.usage_snapshot(), self.fleet.ledger.free_counters(), self.versions) == before
        return answer

    @property
    def versions(self) -> Mapping[str, object]:
        return {name: (self.nodes.version_of(name), dict(self.nodes[name].held())) for name in self.nodes}


def _devices(card: int) -> Sequence[Device]:
    everything = {f"c{card}.memory": 8, f"c{card}.compute": 7}
    return [
        device(f"gpu-{card}", {"profile": ""}, draws=everything),
        device(
            f"gpu-{card}-share",
            {"kind": "share", "profile": ""},
            draws=everything,
            capacity={"memory": memory("24Gi")},
            shared=True,
        ),
        *(
            device(
                f"gpu-{card}-part-{at}",
                {"kind": "mig", "profile": "part"},
                draws={f"c{card}.memory": 4, f"c{card}.compute": 3},
            )
            for at in range(2)
        ),
        *(
            device(
                f"gpu-{card}-small-{at}",
                {"kind": "mig", "profile": "small"},
                draws={f"c{card}.memory": 1, f"c{card}.compute": 1},
            )
            for at in range(7)
        ),
    ]


def pod(
    *kinds: str, priority: int = 10, preempts: bool = True, cpus: int = 0, name: str = "important", **more: object
) -> PodDemand:
    """A pod that needs one claim for devices of these kinds."""
    needs = Needs({"cpu": cpus * CPU} if cpus else {}, priority=priority, preempts=preempts)
    return PodDemand(f"ns/{name}", needs, (asked(*kinds, name=name),) if kinds else (), **more)  # type: ignore[arg-type]


RACK = Level("rack", "nodeLabel")


def gang(*members: PodDemand, minimum: int = 0, levels: tuple[Level, ...] = (), **more: object) -> Gang:
    """A gang of these pods, all of which have to start unless there is a minimum."""
    every = tuple(Member(one, rank) for rank, one in enumerate(members))
    least = minimum or len(every)
    return Gang("ns/important", "uid-gang", every, minimum=least, levels=levels, **more)  # type: ignore[arg-type]


def nobody(answer: Preemption | Refusal[Unevicted]) -> Unevicted:
    """Why nobody is evicted."""
    assert isinstance(answer, Refusal), answer
    return answer.why


def victims(answer: Preemption | Refusal[Unevicted]) -> list[str]:
    """Names of the victims, in order."""
    assert isinstance(answer, Preemption), answer
    return [victim.pod.removeprefix("ns/") for victim in answer.victims]
