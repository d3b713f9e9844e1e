"""Small clusters with a topology, and gangs, in few words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Level, Member, Memory, SearchOptions, Standing, TriedDomains, choose
from controller.placement import Needs, NodeFacts, Nodes, NodeTaint, Placed, PodDemand
from controller.refusal import Refusal
from driver.model import Claim, Device
from driver.quantity import Quantity
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, fleet, pool, want

CPU = Quantity.parse("1").nanos
IB = "ib"
LEAF = "leaf"
CLUSTER = Level(IB, "nodeLabel")
PREFERRED_LEAF = Level(LEAF, "nodeLabel", required=False)


def attribute(name: str, **fields: Any) -> Level:
    return Level(f"{DRIVER}/{name}", "attribute", **fields)


@dataclass(frozen=True)
class Host:
    """A node: its labels, its devices, and what it has besides; ``used`` devices are taken, the first ones."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    cards: int = 8
    cpus: int = 100
    used: int = 0
    devices: tuple[Device, ...] = ()
    sets: Mapping[str, Mapping[str, int]] | None = None
    tainted: bool = False
    ready: bool = True

    def published(self) -> tuple[Device, ...]:
        return self.devices or tuple(device(f"gpu-{number}") for number in range(self.cards))


def hosts(prefix: str, count: int, labels: Mapping[str, str] | None = None, **fields: Any) -> list[Host]:
    return [Host(f"{prefix}{number}", labels or {}, **fields) for number in range(1, count + 1)]


@dataclass(frozen=True)
class GangCase:
    """A cluster and a gang; ``built`` may add everything in another order, which must not change an answer."""

    cluster: Sequence[Host]
    gang: Gang

    def built(self, shuffle: Random | None = None) -> tuple[Fleet, Nodes, Gang]:
        cluster, members, standing = list(self.cluster), list(self.gang.members), list(self.gang.standing)
        if shuffle is not None:
            for some in (cluster, members, standing):
                shuffle.shuffle(some)
        made, nodes = fleet(), Nodes()
        for host in cluster:
            add(host, made, nodes)
        for one in standing:
            for number, allocation in enumerate(one.placed.allocations):
                made.ledger.assume(f"uid-{one.pod}-{number}", allocation)
            nodes.count(one.pod, Needs({}), one.placed.node)
        return made, nodes, replace(self.gang, members=tuple(members), standing=tuple(standing))

    def decide(self, shuffle: Random | None = None, **options: Any) -> GangPlan | Refusal[TriedDomains]:
        made, nodes, gang = self.built(shuffle)
        before = state(made, nodes)
        answer = choose(gang, Cluster.unlimited(made, nodes), SearchOptions(**options))
        assert state(made, nodes) == before, "something is left behind"
        memory = Memory()
        for _ in range(2):
            assert choose(gang, Cluster.unlimited(made, nodes), SearchOptions(memory=memory, **options)) == answer, (
                "planned again"
            )
        return answer


def add(host: Host, made: Fleet, nodes: Nodes) -> None:
    made.ledger.upsert_node(host.name, host.labels)
    for part in pool(*host.published(), node=host.name, sets=host.sets):
        made.ledger.upsert_slice(part)
    for number in range(host.used):
        one = claim(want(), name=f"{host.name}-{number}")
        found = made.allocate(host.name, host.labels, [one])
        assert isinstance(found, tuple)
        made.ledger.assume(one.uid, found[0])
    taints = (NodeTaint("t", "", "NoSchedule"),) if host.tainted else ()
    allocatable = {"pods": 100 * CPU, "cpu": host.cpus * CPU}
    nodes.upsert(NodeFacts(host.name, host.ready, labels=host.labels, taints=taints, allocatable=allocatable))


def state(made: Fleet, nodes: Nodes) -> object:
    """Everything that a decision could leave behind."""
    views = {
        name: (+nodes[name].used, dict(nodes[name].ports), nodes[name].pods, nodes.version_of(name)) for name in nodes
    }
    return dict(made.ledger.usage_snapshot()), views, nodes.generation


def member(
    rank: int,
    *claims: Claim,
    count: int = 1,
    cpus: int = 1,
    leader: bool = False,
    name: str = "",
    task: str = "",
    **fields: Any,
) -> Member:
    """A member with one claim for ``count`` cards unless ``claims`` says otherwise."""
    name = name or (f"leader-{rank}" if leader else f"worker-{rank}")
    asked = claims or ((claim(want(count=count), name=name),) if count else ())
    needs = fields.pop("needs", Needs({"cpu": cpus * CPU} if cpus else {}))
    sub_group = fields.pop("sub_group", None)
    return Member(PodDemand(f"ns/{name}", needs, asked, **fields), rank, leader, task, sub_group)


def members(number: int, start: int = 0, **fields: Any) -> tuple[Member, ...]:
    return tuple(member(rank, **fields) for rank in range(start, start + number))


def gang(some: Iterable[Member], *levels: Level, minimum: int = 0, **fields: Any) -> Gang:
    every = tuple(some)
    return Gang("ns/gang", "uid-gang", every, minimum=minimum or len(every), levels=levels, **fields)


def standing(rank: int, cluster: Sequence[Host], node: str, *devices: str, name: str = "") -> Standing:
    """A member that holds these devices of the node."""
    name = name or f"worker-{rank}"
    made, nodes = fleet(), Nodes()
    (host,) = (one for one in cluster if one.name == node)
    add(replace(host, used=0, devices=tuple(one for one in host.published() if one.name in devices)), made, nodes)
    found = made.allocate(node, {}, [claim(want(count=len(devices)), name=name)])
    assert isinstance(found, tuple)
    return Standing(f"ns/{name}", Placed(node, found), rank)


def nodes_of(answer: GangPlan | Refusal[TriedDomains]) -> list[str]:
    assert isinstance(answer, GangPlan), answer
    return [placement.node for placement in answer.placements]


def devices_of(answer: GangPlan | Refusal[TriedDomains]) -> list[str]:
    assert isinstance(answer, GangPlan), answer
    return [
        f"{placement.node}/{result.device.device}"
        for placement in answer.placements
        for allocation in placement.allocations
        for result in allocation.results
    ]


def domain_of(answer: GangPlan | Refusal[TriedDomains]) -> str:
    assert isinstance(answer, GangPlan), answer
    return str(answer.domain)


def verdicts(answer: GangPlan | Refusal[TriedDomains]) -> list[str]:
    assert isinstance(answer, Refusal), answer
    return [f"{verdict.domain}: {verdict.placed} of {verdict.needed}" for verdict in answer.why.fits]
