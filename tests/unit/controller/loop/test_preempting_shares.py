"""Shares as victims, and as what is kept: nobody gets what is kept, and others get what remains of the card."""

from typing import Any

from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_double_use import alarms

KIND = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "share"'


class SharesWorld(PreemptingWorld):
    """Each card is offered as a whole and as shares, which draw on the same counter."""

    def __init__(self, cards: int):
        super().__init__(cards=cards)
        self.add_class("share", KIND)

    def publish(self, node: str, cards: int, driver: str = "lode.dev") -> None:
        pool = {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": 2}
        common = {"driver": driver, "nodeName": node, "pool": pool}
        policy = {"default": "80Gi", "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"}}
        devices: list[dict[str, Any]] = []
        for card in range(cards):
            draws = [{"counterSet": f"card-{card}", "counters": {"all": {"value": "1"}}}]
            whole = {"name": f"gpu-{card}", "attributes": {"kind": {"string": "gpu"}}, "consumesCounters": draws}
            share = {
                "name": f"gpu-{card}-share",
                "attributes": {"kind": {"string": "share"}},
                "allowMultipleAllocations": True,
                "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
                "consumesCounters": draws,
            }
            devices += [whole, share]
        sets = [{"name": f"card-{card}", "counters": {"all": {"value": "1"}}} for card in range(cards)]
        for name, spec in (("counters", {"sharedCounters": sets}), ("devices", {"devices": devices})):
            self.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{node}-{name}"}, "spec": {**common, **spec}})

    def wanting_shares(self, name: str, *memory: str, priority: int = 0, **pod: Any) -> None:
        """A pod that waits for shares, with a claim of its name."""
        requests = [
            {
                "name": f"share-{at}",
                "exactly": {"deviceClassName": "share", "capacity": {"requests": {"memory": amount}}},
            }
            for at, amount in enumerate(memory)
        ]
        spec = {"devices": {"requests": requests}}
        self.api.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        self.add_pod(name, name, priority=priority, **pod)

    def running_shares(self, name: str, *memory: str, priority: int = 0, **pod: Any) -> None:
        """A pod that runs with shares."""
        self.wanting_shares(name, *memory, priority=priority, **pod)
        self.settle()
        self.bind(name, self.devices(name)[0].split("/")[0])
        self.settle()


def test_a_share_is_evicted_for_a_larger_one_and_no_double_use_is_reported_meanwhile() -> None:
    world = SharesWorld(cards=1)
    world.running_shares("a", "30Gi")
    world.running_shares("b", "30Gi", priority=HIGH)
    world.running_shares("c", "20Gi", priority=HIGH)
    world.wanting_shares("important", "30Gi", priority=HIGH)
    world.settle(10)
    assert world.evicted() == ["a"]
    world.start()
    world.settle(60)
    assert alarms(world) == 0
    assert [world.events(name, "DoubleUse") for name in ("a", "b", "c")] == [[], [], []]
    world.end("a")
    assert world.devices("important") == ["n1/gpu-0-share"]


def test_two_shares_are_evicted_for_a_whole_card_and_no_double_use_is_reported_meanwhile() -> None:
    world = SharesWorld(cards=1)
    world.running_shares("a", "30Gi")
    world.running_shares("b", "30Gi")
    world.wanting("important", HIGH)
    world.settle(10)
    assert sorted(world.evicted()) == ["a", "b"]
    world.start()
    world.settle(60)
    assert alarms(world) == 0
    for name in "ab":
        world.end(name)
    assert world.devices("important") == ["n1/gpu-0"]


def test_while_a_share_is_kept_others_get_what_remains_of_the_card() -> None:
    world = SharesWorld(cards=2)
    world.running_shares("a", "20Gi", priority=HIGH)
    world.running("b")
    world.wanting_shares("important", "30Gi", "80Gi", priority=HIGH)
    world.settle(10)
    assert world.evicted() == ["b"]
    world.wanting_shares("small", "20Gi")
    world.wanting_shares("large", "31Gi")
    world.settle(10)
    assert world.devices("small") == ["n1/gpu-0-share"]
    assert world.devices("large") == []
    world.end("b")
    assert sorted(world.devices("important")) == ["n1/gpu-0-share", "n1/gpu-1-share"]
    world.settle(10)
    assert world.gates("large")


def test_nobody_gets_a_share_of_a_card_that_a_victim_holds_as_a_whole() -> None:
    world = SharesWorld(cards=1)
    world.running("a")
    world.wanting_shares("important", "30Gi", priority=HIGH)
    world.settle(10)
    assert world.evicted() == ["a"]
    world.wanting_shares("small", "20Gi")
    world.settle(10)
    assert world.devices("small") == []
    world.end("a")
    assert world.devices("important") == ["n1/gpu-0-share"]
    world.settle(10)
    assert world.devices("small") == ["n1/gpu-0-share"]


def test_when_the_victim_of_a_whole_card_has_ended_others_get_what_remains_of_that_card() -> None:
    world = SharesWorld(cards=2)
    for name in "ab":
        world.running(name)
    world.wanting_shares("important", "30Gi", "80Gi", priority=HIGH)
    world.settle(10)
    assert sorted(world.evicted()) == ["a", "b"]
    world.wanting_shares("small", "20Gi")
    world.settle(10)
    assert world.devices("small") == []
    (first,) = [name for name in "ab" if world.devices(name) == ["n1/gpu-0"]]
    world.end(first)
    world.settle(10)
    assert world.devices("small") == ["n1/gpu-0-share"]
    world.end({"a": "b", "b": "a"}[first])
    assert sorted(world.devices("important")) == ["n1/gpu-0-share", "n1/gpu-1-share"]


def test_nobody_gets_a_share_of_a_card_that_is_kept_whole_while_victims_have_shares_of_it() -> None:
    world = SharesWorld(cards=1)
    for name in "ab":
        world.running_shares(name, "20Gi")
    world.wanting("important", HIGH)
    world.settle(10)
    assert sorted(world.evicted()) == ["a", "b"]
    world.wanting_shares("small", "20Gi")
    world.settle(10)
    assert world.devices("small") == []
    world.end("a")
    world.settle(60)
    assert world.devices("small") == []
    assert alarms(world) == 0
    world.end("b")
    assert world.devices("important") == ["n1/gpu-0"]
