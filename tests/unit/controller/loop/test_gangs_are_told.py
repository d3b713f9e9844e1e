"""What a gang is told of which a member fits no node even alone: the same as a single pod of its shape."""

import re
from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, Object
from tests.unit.controller.loop.gangworld import GangWorld, gang_config

SAYS = "Waiting does not help: no node has what the claims ask for, even if nothing was in use."


def asks(count: int = 1, selector: str = "true", **spec: Any) -> Object:
    exactly = {"deviceClassName": "gpu.lode.dev", "count": count, "selectors": [{"cel": {"expression": selector}}]}
    return {"requests": [{"name": "gpu", "exactly": exactly}], **spec}


def told(world: GangWorld, wants: Object, **gang: Any) -> tuple[str, str]:
    """The reason and the message of a gang of two whose members want this; both get the same, in one Event."""
    for member in ("j-0", "j-1"):
        config = [gang_config("j", 2, **gang)]
        spec = {"devices": {**wants, "config": config}}
        world.api.create(RESOURCE_CLAIMS, {"metadata": {"name": member, "namespace": "default"}, "spec": spec})
        world.add_pod(member, member)
    world.settle(30)
    conditions = {world.condition(member)[1:] for member in ("j-0", "j-1")}
    ((reason, message),) = conditions
    assert sum(world.event_count(member, reason) for member in ("j-0", "j-1")) == 1
    return reason, message


def alone(world: GangWorld, wants: Object) -> tuple[str, str]:
    """The same of a single pod."""
    spec = {"devices": wants}
    world.api.create(RESOURCE_CLAIMS, {"metadata": {"name": "s", "namespace": "default"}, "spec": spec})
    world.add_pod("s", "s")
    world.settle(30)
    return world.condition("s")[1:]


@pytest.mark.parametrize(
    ("wants", "names"),
    [
        (asks(selector='device.attributes["lode.dev"].modle == "x"'), "no such key: modle"),
        (asks(selector='device.attributes["lode.dev"].kind == "gpuu"'), "excluded by selector 0"),
        (asks(count=3), "wants 3 of gpu.lode.dev"),
    ],
    ids=["a selector that names no attribute", "a selector that matches nothing", "more than any node has"],
)
def test_a_gang_is_told_what_no_node_has_as_a_single_pod_is(wants: Object, names: str) -> None:
    reason, message = told(GangWorld(a=2, b=2), wants)
    assert reason == "Impossible"
    assert message.startswith(f"gang default/j: pod default/j-0: 0 of 4 nodes can take the pod. {SAYS} ")
    assert names in message
    assert "cpu" not in message
    single = alone(GangWorld(a=2, b=2), wants)
    assert single == (reason, message.removeprefix("gang default/j: pod default/j-0: ").replace("j-0", "s"))


def test_it_is_told_once_and_stays_told_while_the_gang_is_decided_again() -> None:
    world = GangWorld(a=2, b=2)
    told(world, asks(count=3))
    world.set_ready("a1", False)
    world.settle(300)
    assert world.condition("j-0")[1] == "Impossible"
    assert [world.event_count("j-0", reason) for reason in ("Impossible", "Unallocatable")] == [1, 0]


def test_a_gang_whose_members_fit_nowhere_for_now_is_told_its_domains_and_the_closest_node() -> None:
    world = GangWorld(a=2, b=1)
    for number in range(5):
        world.add_claim(f"old-{number}")
        world.add_pod(f"old-{number}", f"old-{number}")
        world.settle(2)
    world.remove_pod("old-0")
    world.settle(2)
    reason, message = told(world, asks(count=2))
    assert reason == "Unallocatable"
    assert "members fit in a (" in message
    assert "; pod default/j-0: 0 of 3 nodes can take the pod." in message
    assert re.search(r"freeing default/old-\d would do", message)


def test_a_gang_whose_members_fit_alone_is_told_what_its_domains_take() -> None:
    reason, message = told(GangWorld(cards=1, a=1, b=1), asks())
    assert reason == "Unallocatable"
    assert message.startswith("gang default/j: 1 of 2 members fit in a (devices on 1 node)")
    assert "pod default/j-0" not in message


def test_a_predicate_that_passes_is_never_named() -> None:
    """Members that agree on an attribute as to their devices fit no node; a CPU of each node is asked of eight."""
    wants = asks(count=2, constraints=[{"requests": ["gpu"], "matchAttribute": "lode.dev/uuid"}])
    _, message = told(GangWorld(a=2), wants)
    assert "matchAttribute" in message
    assert "insufficient" not in message
    assert "too many pods" not in message


def test_groups_that_find_no_domain_are_told_their_size_and_the_level() -> None:
    topology = [{"nodeLabel": "fabric", "groupSize": 2}]
    _, message = told(GangWorld(cards=1, a=1, b=1), asks(), topology=topology)
    assert "fit in the cluster (they do not fit together, each 2 members in one fabric)" in message
