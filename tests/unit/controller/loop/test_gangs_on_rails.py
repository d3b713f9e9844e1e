"""A gang of pods, each with two cards and the network cards beside them: all pods get the same rails."""

from typing import Any

from driver.kube.api import RESOURCE_SLICES, Object
from driver.names import PCIE_ROOT
from tests.unit.controller.loop.gangworld import gang_config
from tests.unit.controller.loop.test_mixed_claims import MixedWorld

PAIR = [
    {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}},
    {"name": "nic", "exactly": {"deviceClassName": "rdma"}},
]
BESIDE = [{"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT}]
RAIL = "lode.dev/rail"
FREE = {"n1": "0123", "n2": "123", "n3": "023"}
"""The rails of the cards of each node."""


class RailWorld(MixedWorld):
    """Nodes with a card on each of some rails, and a network card at the PCI root of each card."""

    def __init__(self, rails: dict[str, str] = FREE):
        super().__init__(*([device("nic", rail) for rail in of_node] for of_node in rails.values()))
        for node, of_node in rails.items():
            self.replace_cards(node, [device("gpu", rail) for rail in of_node])

    def add_members(self, *numbers: int, **gang: Any) -> None:
        """Pods with two claims each, for a card and the network card beside it."""
        config = [gang_config("train", 2, [], **gang)]
        config[0]["opaque"]["parameters"].pop("topology")
        for number in numbers:
            for pair in "ab":
                self.add_claim(f"{number}-{pair}", requests=PAIR, constraints=BESIDE, config=config)
            self.add_pod(f"train-{number}", f"{number}-a", f"{number}-b")
        self.settle(5)

    def rails(self, number: int) -> str:
        """The rails of the pod's cards; its network cards are on the same."""
        held = [place.rpartition("/")[2] for pair in "ab" for place in self.devices(f"{number}-{pair}")]
        cards, nics = ("".join(sorted(one[4:] for one in held if one[:3] == kind)) for kind in ("gpu", "nic"))
        assert cards == nics
        return cards


def device(kind: str, rail: str) -> Object:
    """A device on the rail, at the PCI root of the rail. Only cards say which rail that is."""
    attributes = {"kind": {"string": kind}, PCIE_ROOT: {"string": f"pci0000:{rail}0"}}
    return {"name": f"{kind}-{rail}", "attributes": attributes | ({"rail": {"string": rail}} if kind == "gpu" else {})}


SAME = {"constraints": [{"sameSet": RAIL}]}


def test_all_pods_get_cards_and_network_cards_on_the_same_rails() -> None:
    world = RailWorld()
    world.add_members(1, 2, 3, **{**SAME, "minAvailable": 3})
    assert {world.rails(number) for number in (1, 2, 3)} == {"23"}
    assert [world.gates(f"train-{number}") for number in (1, 2, 3)] == [[], [], []]
    world.check()


def test_a_pod_that_comes_later_or_again_gets_the_rails_of_the_others() -> None:
    world = RailWorld()
    world.add_members(1, 2, **SAME)
    first = world.rails(1)
    assert world.rails(2) == first
    for number in (1, 2):
        world.bind(f"train-{number}", next(iter(world.devices(f"{number}-a"))).split("/")[0])
    world.remove_pod("train-2")
    world.settle(5)
    world.add_members(3, **SAME)
    assert world.rails(3) == first
    world.check()


def test_pods_that_wait_are_told_which_rail_is_missing_and_start_when_it_is_there() -> None:
    world = RailWorld({"n1": "01", "n2": "12"})
    world.add_members(1, 2, **SAME)
    said = world.said("train-1")
    assert f"sameSet {RAIL}: 0 and 1, which most members can get; not free are 0 on n2" in said
    assert world.rails(1) == ""
    world.replace_cards("n2", [device("gpu", rail) for rail in "012"])
    found = world.api.get(RESOURCE_SLICES, "n2-of-dra.net")
    found["spec"]["devices"].append(device("nic", "0"))
    world.api.update(RESOURCE_SLICES, found)
    world.settle(60)
    assert (world.rails(1), world.rails(2)) == ("01", "01")


def test_without_the_constraint_pods_get_any_rails() -> None:
    world = RailWorld({"n1": "01", "n2": "23"})
    world.add_members(1, 2)
    assert (world.rails(1), world.rails(2)) == ("01", "23")


def test_pods_that_contradict_each_other_are_told() -> None:
    world = RailWorld()
    world.add_members(1, **SAME)
    world.add_members(2, constraints=[{"same": RAIL}])
    assert "gang.constraints: members contradict each other" in world.said("train-1")
