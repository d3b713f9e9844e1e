"""Gangs inside one domain of an attribute that cards have and the devices of a named driver do not."""

from typing import Any

import pytest

from driver.kube.api import Object
from tests.unit.controller.loop.test_mixed_claims import NIC, MixedWorld

DOMAIN = "nvlinkDomain"
CHANNEL = {"name": "nic-0"}


def card(number: int, domain: str) -> Object:
    return {"name": f"gpu-{number}", "attributes": {"kind": {"string": "gpu"}, DOMAIN: {"string": domain}}}


class RacksWorld(MixedWorld):
    """Nodes with two cards in these domains, by default both in one, and with devices of the named driver.

    Args:
        racks: the domains of the cards of each node.
        nics: the devices of the named driver on each node.
    """

    def __init__(self, *racks: str, nics: tuple[Object, ...] = (CHANNEL,)):
        super().__init__(*([*nics] for _ in racks))
        for number, domains in enumerate(racks, 1):
            self.replace_cards(f"n{number}", [card(at, domains[at % len(domains)]) for at in range(2)])

    def gang(self, *pods: str, separate: bool = True, cards: int = 2) -> None:
        """A gang of these pods, each with cards and a device of the named driver, in one claim or in two."""
        placing: dict[str, Any] = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
        placing["gang"] = {"name": "g", "minAvailable": len(pods)}
        placing["topology"] = [{"attribute": f"lode.dev/{DOMAIN}"}]
        config = [{"opaque": {"driver": "lode.dev", "parameters": placing}}]
        gpus = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "count": cards}}
        for pod in pods:
            self.add_claim(f"{pod}-gpu", requests=[gpus] if separate else [gpus, NIC], config=config)
            if separate:
                self.add_claim(f"{pod}-nic", requests=[NIC])
            self.make(pod, separate=separate)
        self.settle(30)

    def make(self, pod: str, *, separate: bool = True) -> None:
        """The pod, whose claims exist."""
        entries = ("gpu", "nic") if separate else ("gpu",)
        self.add_pod(pod, resourceClaims=[{"name": it, "resourceClaimName": f"{pod}-{it}"} for it in entries])

    def places(self, *pods: str) -> list[str]:
        """The node of the cards of each pod; "" for one that has none."""
        return [next((it.partition("/")[0] for it in self.devices(f"{pod}-gpu")), "") for pod in pods]


@pytest.mark.parametrize("separate", [True, False])
def test_devices_without_the_attribute_are_in_the_domain_of_their_node(separate: bool) -> None:
    world = RacksWorld("b", "a", "a")
    world.gang("p", "q", separate=separate)
    assert sorted(world.places("p", "q")) == ["n2", "n3"]
    assert world.gates("p") == world.gates("q") == []


def test_a_member_that_comes_again_waits_for_the_domain_of_the_one_that_holds_such_a_device() -> None:
    world = RacksWorld("a", "a", "b", "b")
    world.gang("p", "q")
    for pod, node in zip("pq", world.places("p", "q"), strict=True):
        world.bind(pod, node)
    (place,) = world.places("q")
    world.remove_pod("q")
    world.add_claim("x", 1)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [place]}]}
    only = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.add_pod("x", "x", affinity={"nodeAffinity": only})
    world.settle(30)
    assert world.devices("x")
    world.make("q")
    world.settle(30)
    assert world.places("q") == [""]
    world.remove_pod("x")
    world.settle(30)
    assert world.places("q") == [place]


def test_on_a_node_in_two_domains_they_are_in_either() -> None:
    """A member has cards of one domain; of two members that are in one domain, the node takes one."""
    world = RacksWorld("ab", "ab", nics=({"name": "nic-0"}, {"name": "nic-1"}))
    world.gang("p", "q", cards=1)
    (one, other) = [world.devices(f"{pod}-gpu")[0] for pod in "pq"]
    assert one.partition("/")[0] != other.partition("/")[0]
    assert one.partition("/")[2] == other.partition("/")[2]


def test_where_their_driver_says_the_attribute_of_some_of_them_the_others_are_in_no_domain() -> None:
    said = {"name": "nic-1", "attributes": {f"lode.dev/{DOMAIN}": {"string": "a"}}}
    world = RacksWorld("a", "a", nics=(CHANNEL, said))
    world.gang("p", "q")
    assert sorted(world.places("p", "q")) == ["n1", "n2"]
    assert [world.devices(f"{pod}-nic")[0].partition("/")[2] for pod in "pq"] == ["nic-1", "nic-1"]
