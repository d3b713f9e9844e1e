"""Pods that share a claim that kube-scheduler is about to allocate for the first of them."""

from typing import Any

from driver.kube.api import NODES, RESOURCE_SLICES
from tests.unit.controller.loop.gangworld import gang_config
from tests.unit.controller.loop.world import ControllerWorld

NET = "net.example.com"
ALL_NODES = {"allNodes": True}


def rack(name: str) -> dict[str, Any]:
    """Where a slice of the rack's nodes is."""
    expression = {"key": "rack", "operator": "In", "values": [name]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


class NetworkedWorld(ControllerWorld):
    """Beside its cards, the cluster has devices of another driver."""

    def __init__(self, nodes: int, cards: int, *pools: tuple[str, dict[str, Any], int]):
        super().__init__(nodes=nodes, cards=cards)
        self.add_class("net", f'device.driver == "{NET}"')
        for name, where, count in pools:
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"net{number}"} for number in range(count)]
            spec = {"driver": NET, **where, "pool": pool, "devices": devices}
            self.api.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})
        self.add_claim("net", device_class="net")

    def user(self, name: str, net: str = "net") -> None:
        """A pod with a card of its own and the claim."""
        self.add_claim(name)
        self.add_pod(name, name, net)
        self.settle(10)

    def gang(self, *names: str) -> None:
        """Pods that start together, each with a card of its own, and all with the claim."""
        config = gang_config("train", len(names))
        del config["opaque"]["parameters"]["topology"]
        for name in names:
            self.add_claim(name, config=[config])
            self.add_pod(name, name, "net")
        self.settle(30)

    def on(self, *pods: str) -> list[str]:
        """The node of each pod's card; "" where it has none."""
        return [next((device.split("/")[0] for device in self.devices(pod)), "") for pod in pods]


def test_a_device_of_all_nodes_keeps_the_second_pod_from_none() -> None:
    world = NetworkedWorld(2, 1, ("net", ALL_NODES, 1))
    world.user("p1")
    world.user("p2")
    assert world.on("p1", "p2") == ["n1", "n2"]
    assert (world.gates("p1"), world.gates("p2")) == ([], [])


def test_where_the_device_is_of_one_node_the_second_pod_follows_to_it() -> None:
    world = NetworkedWorld(2, 2, ("net-1", {"nodeName": "n1"}, 1), ("net-2", {"nodeName": "n2"}, 1))
    world.set_ready("n1", False)
    world.user("p1")
    world.set_ready("n1", True)
    world.user("p2")
    assert world.on("p1", "p2") == ["n2", "n2"]


def test_where_that_node_is_full_it_is_told_what_holds_the_cards_there() -> None:
    world = NetworkedWorld(2, 1, ("net-1", {"nodeName": "n1"}, 1), ("net-2", {"nodeName": "n2"}, 1))
    world.user("p1")
    world.user("p2")
    status, reason, message = world.condition("p2")
    assert (status, reason) == ("False", "Unallocatable")
    assert "in use by default/p1;" in message


def test_it_is_free_again_when_the_first_pod_is_deleted_before_that() -> None:
    world = NetworkedWorld(2, 1, ("net-1", {"nodeName": "n1"}, 1), ("net-2", {"nodeName": "n2"}, 1))
    world.user("p1")
    world.user("p2")
    cordoned = world.api.get(NODES, "n1")
    cordoned["spec"] = {**cordoned.get("spec", {}), "unschedulable": True}
    world.api.update(NODES, cordoned)
    world.settle(10)
    assert world.on("p2") == [""]
    world.remove_pod("p1")
    world.settle(10)
    assert world.on("p2") == ["n2"]


def test_a_claim_that_several_pods_let_go_share_counts_once() -> None:
    world = NetworkedWorld(1, 3, ("net", {"nodeName": "n1"}, 2))
    world.user("p1")
    world.user("p2")
    world.add_claim("own", device_class="net")
    world.user("p3", "own")
    assert world.on("p1", "p2", "p3") == ["n1", "n1", "n1"]


def test_another_pods_claim_still_counts() -> None:
    world = NetworkedWorld(1, 3, ("net", {"nodeName": "n1"}, 1))
    world.user("p1")
    world.add_claim("own", device_class="net")
    world.user("p2", "own")
    assert world.on("p2") == [""]
    assert "default/net" in world.condition("p2")[2]


def test_members_of_a_gang_that_share_a_device_of_all_nodes_start_on_different_ones() -> None:
    world = NetworkedWorld(2, 1, ("net", ALL_NODES, 1))
    world.gang("m1", "m2")
    assert sorted(world.on("m1", "m2")) == ["n1", "n2"]
    assert (world.gates("m1"), world.gates("m2")) == ([], [])


def test_members_that_share_a_device_of_a_rack_start_in_the_rack_that_takes_them() -> None:
    world = NetworkedWorld(4, 1, ("net-1", rack("r1"), 1), ("net-2", rack("r2"), 1))
    for node, of in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")):
        world.api.patch(NODES, node, {"metadata": {"labels": {"rack": of}}})
    world.add_claim("before")
    world.add_pod("before", "before")
    world.settle(10)
    assert world.on("before") == ["n1"]
    world.gang("m1", "m2")
    assert sorted(world.on("m1", "m2")) == ["n3", "n4"]


def test_members_that_share_a_device_of_one_node_start_on_that_node_alone() -> None:
    world = NetworkedWorld(2, 1, ("net-1", {"nodeName": "n1"}, 1), ("net-2", {"nodeName": "n2"}, 1))
    world.gang("m1", "m2")
    assert world.on("m1", "m2") == ["", ""]
    assert "0 of 2 members fit" in world.condition("m1")[2]


def test_the_device_that_members_share_is_not_left_for_another_gang() -> None:
    world = NetworkedWorld(4, 1, ("net", ALL_NODES, 1))
    world.gang("m1", "m2")
    world.add_claim("other", device_class="net")
    world.user("p1", "other")
    assert world.on("p1") == [""]
