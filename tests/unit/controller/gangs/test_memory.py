"""What is remembered for later gangs changes no answer, whatever happens to the cluster between two decisions."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.gangs import Level, Memory, SearchOptions, choose
from controller.placement import Needs, Nodes
from driver.model import Device
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, pool, want
from tests.unit.controller.gangs.cases import CPU, Host, add, attribute, gang, members

LEVELS = [
    (),
    (Level("ib", "nodeLabel"),),
    (Level("ib", "nodeLabel"), attribute("leaf", required=False)),
    (attribute("ib"), Level("leaf", "nodeLabel", required=False)),
]
DOMAINS = ("", "x", "y", "z")
NAMES = ("n1", "n2", "n3", "n4")

cards = st.lists(st.sampled_from(DOMAINS), min_size=0, max_size=4)
labels = st.fixed_dictionaries({"ib": st.sampled_from(DOMAINS), "leaf": st.sampled_from(DOMAINS)})
WHAT = ["publish", "devices", "labels", "remove node", "remove slices", "use", "free", "count", "discount"]
changes = st.tuples(st.sampled_from(WHAT), st.sampled_from(NAMES), cards, labels)


def devices_in(domains: list[str]) -> tuple[Device, ...]:
    return tuple(
        device(f"gpu-{number}", {"ib": domain, "leaf": domain} if domain else {})
        for number, domain in enumerate(domains)
    )


class ChangingCluster:
    """A cluster that changes."""

    def __init__(self) -> None:
        self.fleet: Fleet = fleet()
        self.nodes = Nodes()
        self.generation = 1
        for name in NAMES[:3]:
            self.publish(name, ["x", "x"], {"ib": "x", "leaf": "y"})

    def publish(self, name: str, domains: list[str], labels: dict[str, str]) -> None:
        self.generation += 1
        add(Host(name, labels, cards=0), self.fleet, self.nodes)
        for part in pool(*devices_in(domains), node=name):
            self.fleet.ledger.upsert_slice(replace(part, generation=self.generation))

    def change(self, what: str, name: str, domains: list[str], labels: dict[str, str]) -> None:
        match what:
            case "publish":
                self.publish(name, domains, labels)
            case "devices":
                self.publish(name, domains, dict(self.nodes.labels_of(name)))
            case "labels":
                self.fleet.ledger.upsert_node(name, labels)
                add(Host(name, labels, cards=0), fleet(), self.nodes)
            case "remove node":
                self.nodes.remove(name)
                self.fleet.ledger.remove_node(name)
            case "remove slices":
                for part in pool(device("x"), node=name):
                    self.fleet.ledger.remove_slice(part.name)
            case "use":
                one = claim(want(), name=name)
                found = self.fleet.allocate(name, self.nodes.labels_of(name), [one])
                if isinstance(found, tuple):
                    self.fleet.ledger.assume(one.uid, found[0])
            case "free":
                self.fleet.ledger.remove_claim(claim(want(), name=name).uid)
            case "count":
                self.nodes.count(f"ns/{name}", Needs({"cpu": 60 * CPU}), name)
            case "discount":
                self.nodes.discount(f"ns/{name}")


@given(st.lists(changes, max_size=6), st.sampled_from(LEVELS), st.integers(1, 4))
def test_a_decision_is_the_same_with_and_without_what_is_remembered(
    happened: list[tuple[str, str, list[str], dict[str, str]]], levels: tuple[Level, ...], size: int
) -> None:
    world, memory = ChangingCluster(), Memory()
    asked = gang(members(size, cpus=30), *levels)
    for change in (None, *happened):
        if change is not None:
            world.change(*change)
        remembered = choose(asked, Cluster.unlimited(world.fleet, world.nodes), SearchOptions(memory=memory))
        assert remembered == choose(asked, Cluster.unlimited(world.fleet, world.nodes))


def test_a_change_that_moves_no_node_leaves_the_domains_what_they_are() -> None:
    world, memory = ChangingCluster(), Memory()
    world.publish("n4", ["x", "x"], {"ib": "x", "leaf": "x"})
    level = (Level("ib", "nodeLabel"),)
    before = memory.topology(level, world.fleet, world.nodes, ()).domain_nodes(1)
    world.publish("n4", ["x"], {"ib": "x", "leaf": "y"})
    assert memory.topology(level, world.fleet, world.nodes, ()).domain_nodes(1) is before
    world.publish("n4", ["x"], {"ib": "y", "leaf": "y"})
    assert memory.topology(level, world.fleet, world.nodes, ()).domain_nodes(1) is not before
