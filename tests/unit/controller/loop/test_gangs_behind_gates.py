"""Gates of others hold members of a gang, such as those of a queue: the gang waits only from their removal on."""

from driver.kube.api import PODS
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.test_serving_order import QUEUE
from tests.unit.controller.loop.world import GATE

HELD_SECONDS = 1_000
WAIT_SECONDS = 300
PREFERRED = {"nodeLabel": "fabric", "mode": "preferred", "waitSeconds": WAIT_SECONDS}


def add_held(world: GangWorld, count: int, minimum: int) -> list[str]:
    """Members behind the gate of a queue, for a long time."""
    names = [f"train-{number}" for number in range(count)]
    for name in names:
        world.add_claim(name, config=[gang_config("train", minimum, [PREFERRED])])
        world.add_pod(name, name, gates=(GATE, QUEUE))
    world.settle(HELD_SECONDS)
    return names


def admit(world: GangWorld, *names: str) -> None:
    """The queue removes its gate."""
    for name in names:
        pod = world.pod(name)
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        world.api.update(PODS, pod)


def test_the_wait_for_a_preferred_domain_begins_when_gates_of_others_are_gone() -> None:
    world = GangWorld(a=1, b=1)
    pods = add_held(world, 4, minimum=4)
    admit(world, *pods)
    world.settle(WAIT_SECONDS - 30)
    assert world.nodes_of(*pods) == [""] * 4
    world.settle(60)
    assert world.nodes_of(*pods) == ["a1", "a1", "b1", "b1"]


def test_the_wait_begins_with_the_member_that_completes_the_minimum() -> None:
    world = GangWorld(a=1, b=1)
    pods = add_held(world, 4, minimum=4)
    admit(world, *pods[:3])
    world.settle(HELD_SECONDS)
    admit(world, pods[3])
    world.settle(WAIT_SECONDS - 30)
    assert world.nodes_of(*pods) == [""] * 4
    world.settle(60)
    assert len(world.let_go(*pods)) == 4


def test_members_that_a_queue_admits_one_after_another_start_together() -> None:
    world = GangWorld(a=1, b=1)
    pods = add_held(world, 3, minimum=1)
    for pod in pods:
        admit(world, pod)
        world.settle(1)
        assert world.let_go(*pods) == []
    world.settle(10)
    assert len(world.let_go(*pods)) == 2, "there is room for two in one domain"


def test_nodes_are_held_back_for_it_only_after_it_has_waited_for_room() -> None:
    world = GangWorld(a=2, settings={"hold": {"afterSeconds": WAIT_SECONDS}})
    world.add_claim("busy")
    world.add_pod("busy", "busy")
    pods = add_held(world, 4, minimum=4)
    admit(world, *pods)
    for number, seconds in enumerate((WAIT_SECONDS - 30, 60)):
        world.settle(seconds)
        world.add_claim(f"small-{number}")
        world.add_pod(f"small-{number}", f"small-{number}")
        world.settle(5)
    assert world.devices("small-0")
    assert not world.devices("small-1")
    assert "held back for gang default/train" in world.condition("small-1")[2]


def test_a_gang_that_a_queue_holds_says_so_and_says_what_is_missing_once_it_is_left_waiting() -> None:
    world = GangWorld(a=2)
    pods = add_held(world, 4, minimum=4)
    admit(world, *pods[:3])
    world.settle(30)
    assert "and 1 of these cannot be placed" in world.condition(pods[0])[2]
    assert QUEUE in world.condition(pods[0])[2]
