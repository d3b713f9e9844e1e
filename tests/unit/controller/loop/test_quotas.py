"""Quotas in memory and cores in the running controller: who waits, who is told what, and who is woken."""

from typing import Any

import pytest

from driver.kube.api import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Conflict,
    Forbidden,
    Unavailable,
)
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.test_gangs_in_parts import IN_ORDER, PartsWorld
from tests.unit.controller.loop.world import GATE, ControllerWorld, Killed, expect_kill


def limit(world: ControllerWorld, name: str = "cards", namespace: str = "default", **spec: Any) -> None:
    """Create or replace a quota; ``cores="200"`` stands for the name with the driver's domain."""
    hard = {f"lode.dev/{key}": value for key, value in spec.items() if key in ("cores", "memory", "wrong")}
    if namespace != "default":
        world.api.create(NAMESPACES, {"metadata": {"name": namespace}})
    rest = {key: value for key, value in spec.items() if key not in ("cores", "memory", "wrong")}
    obj = {"metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard, **rest}}
    known = [it for it in world.api.list(RESOURCE_QUOTAS, namespace=namespace).items if it["metadata"]["name"] == name]
    if known:
        world.api.update(RESOURCE_QUOTAS, {**known[0], "spec": obj["spec"]})
    else:
        world.api.create(RESOURCE_QUOTAS, obj)


def add(world: ControllerWorld, *names: str, count: int = 1) -> None:
    for name in names:
        world.add_claim(name, count)
        world.add_pod(name, name)


def placed(world: ControllerWorld, *names: str) -> list[str]:
    return [name for name in names if world.devices(name)]


@pytest.fixture
def world() -> ControllerWorld:
    return ControllerWorld(nodes=1, cards=4)


def test_a_pod_over_its_quota_waits_and_is_told_the_numbers(world: ControllerWorld) -> None:
    limit(world, cores="250")
    add(world, "a", "b", "c")
    world.settle(10)
    assert placed(world, "a", "b", "c") == ["a", "b"]
    message = "ResourceQuota default/cards, lode.dev/cores: asked 100, used 200, limit 250"
    assert world.condition("c") == ("False", "QuotaExceeded", message)
    assert world.events("c") == [message]
    world.check()


def test_without_a_quota_nothing_is_held_up(world: ControllerWorld) -> None:
    limit(world, namespace="other", cores="0")
    limit(world, name="count")
    add(world, "a", "b")
    world.settle(10)
    assert placed(world, "a", "b") == ["a", "b"]


def test_a_pod_over_its_quota_blocks_nobody_and_holds_no_node(world: ControllerWorld) -> None:
    limit(world, cores="200")
    add(world, "big", count=3)
    world.settle(1)
    add(world, "small")
    world.settle(4000)
    assert placed(world, "big", "small") == ["small"]
    assert not world.controller.held_nodes


def test_a_pod_over_its_quota_is_woken_when_something_of_its_namespace_ends(world: ControllerWorld) -> None:
    limit(world, cores="100")
    add(world, "a", "b")
    world.settle(10)
    calls = len(world.meddler.calls)
    world.settle(1000)
    assert len(world.meddler.calls) == calls, "nothing is written while nothing changes"
    world.remove_pod("a")
    world.settle(1)
    assert placed(world, "b") == ["b"]
    assert world.condition("b")[0] == "True"


def test_of_pods_that_wait_for_one_quota_the_first_is_served_first(world: ControllerWorld) -> None:
    limit(world, cores="0")
    add(world, "a", "b", "c")
    world.add_claim("urgent")
    world.add_pod("urgent", "urgent", priority=10)
    world.settle(10)
    limit(world, cores="100")
    world.settle(1)
    assert placed(world, "a", "b", "c", "urgent") == ["urgent"]
    limit(world, cores="300")
    world.settle(1)
    assert placed(world, "a", "b", "c", "urgent") == ["a", "b", "urgent"]


def test_a_quota_that_is_lowered_takes_nothing_back(world: ControllerWorld) -> None:
    add(world, "a", "b")
    world.settle(10)
    limit(world, cores="50")
    add(world, "c")
    world.settle(10)
    assert placed(world, "a", "b", "c") == ["a", "b"]
    assert "asked 100, used 200, limit 50" in world.condition("c")[2]


def test_a_quota_that_cannot_be_understood_is_told_on_it_and_on_the_pods(world: ControllerWorld) -> None:
    limit(world, wrong="1")
    add(world, "a")
    world.settle(10)
    status, reason, message = world.condition("a")
    assert (status, reason) == ("False", "QuotaInvalid")
    assert message.startswith("ResourceQuota default/cards: spec.hard[lode.dev/wrong]: unknown; the names are memory")
    (told,) = world.events("cards", "QuotaInvalid")
    assert "spec.hard[lode.dev/wrong]: unknown" in told
    limit(world, cores="100")
    world.settle(1)
    assert placed(world, "a") == ["a"]


def test_scopes_are_refused_on_the_quota(world: ControllerWorld) -> None:
    limit(world, cores="100", scopes=["NotTerminating"])
    add(world, "a")
    world.settle(10)
    assert world.condition("a")[1] == "QuotaInvalid"
    assert "spec.scopes: not supported" in world.events("cards", "QuotaInvalid")[0]


def test_a_quota_of_another_namespace_that_cannot_be_understood_harms_nobody(world: ControllerWorld) -> None:
    limit(world, namespace="other", wrong="1")
    add(world, "a")
    world.settle(10)
    assert placed(world, "a") == ["a"]


def test_what_is_being_written_counts(world: ControllerWorld) -> None:
    world.latency = lambda sequence, result: 5
    limit(world, cores="200")
    add(world, "a", "b", "c", "d")
    world.settle(1)
    assert "asked 100, used 200" in world.condition("c")[2]
    assert len(world.controller.state.claims.promised) == 2
    world.settle(60)
    assert placed(world, "a", "b", "c", "d") == ["a", "b"]


@pytest.mark.parametrize("error", [Conflict, Unavailable])
def test_a_write_that_fails_gives_its_part_of_the_quota_back(world: ControllerWorld, error: type[Exception]) -> None:
    failed: list[Any] = []

    def fail_once(what: str, about: Any) -> None:
        if what == "patch resourceclaims/status" and not failed:
            failed.append(about)
            raise error("not now")

    limit(world, cores="100")
    world.meddler.before = fail_once
    add(world, "a", "b")
    world.settle(120)
    assert len(placed(world, "a", "b")) == 1
    assert failed
    assert world.controller.state.quotas.used("default")["cores"] == 100 * 10**9


def test_memory_counts_as_it_is_published() -> None:
    world = ControllerWorld(nodes=1, cards=0)
    name = "n1-lode.dev"
    raw = world.api.get(RESOURCE_SLICES, name)
    raw["spec"]["pool"]["generation"] = 2
    raw["spec"]["devices"] = [
        {
            "name": f"gpu-{number}",
            "attributes": {"kind": {"string": "gpu"}, "type": {"string": "T4"}},
            "capacity": {"memory": {"value": "16Gi"}},
        }
        for number in range(3)
    ]
    world.api.update(RESOURCE_SLICES, raw)
    limit(world, memory="40Gi")
    add(world, "a", "b", "c")
    world.settle(10)
    assert placed(world, "a", "b", "c") == ["a", "b"]
    assert world.condition("c")[2] == "ResourceQuota default/cards, lode.dev/memory: asked 16Gi, used 32Gi, limit 40Gi"


@pytest.mark.parametrize("write", range(1, 7))
def test_a_controller_that_dies_between_two_writes_is_followed_by_one_that_keeps_to_the_quota(write: int) -> None:
    world = ControllerWorld(nodes=1, cards=4)
    limit(world, cores="200")
    add(world, "a", count=2)
    add(world, "b")
    calls: list[str] = []

    def die(what: str, about: Any) -> None:
        calls.append(what)
        if len(calls) == write:
            raise Killed

    world.meddler.before = die
    with expect_kill():
        world.settle(60)
    world.start()
    world.settle(60)
    assert placed(world, "a", "b") == ["a"]
    world.check()


def test_a_pod_is_tried_again_for_devices_that_take_less(world: ControllerWorld) -> None:
    """Its first alternative fits the node until others take cards; the second fits the quota."""
    limit(world, namespace="other", cores="100")
    wants = [{"name": f"n{count}", "deviceClassName": "gpu.lode.dev", "count": count} for count in (4, 1)]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": wants}]}}
    metadata = {"name": "a", "namespace": "other"}
    world.api.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})
    container = {"name": "main", "image": "pause"}
    pod = {"containers": [container], "schedulingGates": [{"name": GATE}]}
    world.api.create(
        PODS, {"metadata": metadata, "spec": {**pod, "resourceClaims": [{"name": "a", "resourceClaimName": "a"}]}}
    )
    world.settle(10)
    assert not world.api.get(RESOURCE_CLAIMS, "a", "other").get("status")
    add(world, "b")
    world.settle(280)
    assert not world.api.get(RESOURCE_CLAIMS, "a", "other").get("status")
    world.settle(20)
    allocation = world.api.get(RESOURCE_CLAIMS, "a", "other")["status"]["allocation"]
    assert [it["request"] for it in allocation["devices"]["results"]] == ["gpu/n1"]


# Gangs


def test_a_gang_counts_whole() -> None:
    world = GangWorld(a=2)
    limit(world, cores="300")
    pods = world.add_gang("train", 4)
    world.settle(60)
    assert world.nodes_of(*pods) == [""] * 4
    message = "gang default/train: ResourceQuota default/cards, lode.dev/cores: asked 400, used 0, limit 300"
    assert {world.condition(pod) for pod in pods} == {("False", "QuotaExceeded", message)}
    assert [len(world.events(pod)) for pod in pods] == [1, 0, 0, 0], "one Event for the gang"
    assert not world.controller.held_domains
    limit(world, cores="400")
    world.settle(5)
    assert world.let_go(*pods) == list(pods)


def test_a_gang_waits_until_enough_of_its_namespace_has_ended() -> None:
    world = GangWorld(a=3)
    limit(world, cores="400")
    for name in ("x", "y"):
        world.add_claim(name)
        world.add_pod(name, name)
    world.settle(5)
    pods = world.add_gang("train", 4)
    world.settle(30)
    world.remove_pod("x")
    world.settle(30)
    assert world.nodes_of(*pods) == [""] * 4
    world.remove_pod("y")
    world.settle(5)
    assert world.let_go(*pods) == list(pods)


def test_a_member_more_of_a_gang_that_runs_waits_alone() -> None:
    world = GangWorld(a=2)
    limit(world, cores="300")
    pods = world.add_gang("train", 2)
    world.settle(10)
    world.bind_all()
    more = world.add_gang("train", 2, minimum=2, first=2)
    world.settle(30)
    assert world.let_go(*pods, *more) == [*pods, more[0]]
    assert world.condition(more[1])[1] == "QuotaExceeded"
    world.remove_pod(pods[0])
    world.settle(5)
    assert world.let_go(*more) == list(more)


def test_a_gang_counts_with_the_members_that_are_made_later() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    limit(world, cores="300")
    world.start_leader()
    assert world.node_of("train-leader-0-0") == ""
    assert "asked 400, used 0, limit 300" in world.condition("train-leader-0-0")[2]
    limit(world, cores="400")
    world.settle(5)
    assert world.let_go("train-leader-0-0")


def test_half_a_gang_gives_its_devices_back_if_the_quota_is_lowered_meanwhile() -> None:
    world = GangWorld(a=2)
    limit(world, cores="400")
    pods = world.add_gang("train", 4)
    calls: list[str] = []

    def die(what: str, about: Any) -> None:
        calls.append(what)
        if calls.count("patch resourceclaims/status") == 3:
            raise Killed

    world.meddler.before = die
    with expect_kill():
        world.settle(60)
    assert len([node for node in world.nodes_of(*pods) if node]) == 2
    limit(world, cores="300")
    world.start()
    world.settle(60)
    assert world.nodes_of(*pods) == [""] * 4
    assert not world.let_go(*pods)


def test_pods_of_the_namespace_are_listed_once_more_when_they_end() -> None:
    """A pod that waits for its quota and is deleted leaves no trace."""
    world = ControllerWorld(nodes=1, cards=4)
    limit(world, cores="0")
    add(world, "a", "b")
    world.settle(5)
    world.api.delete(PODS, "a", "default", grace_period_seconds=0)
    limit(world, cores="100")
    world.settle(5)
    assert placed(world, "b") == ["b"]


# What kubectl shows


def used(world: ControllerWorld, name: str = "cards") -> Any:
    return (world.api.get(RESOURCE_QUOTAS, name, "default").get("status") or {}).get("used")


def test_what_is_used_is_written_where_kubectl_shows_it_and_only_if_it_differs(world: ControllerWorld) -> None:
    limit(world, cores="300", memory="1Ti")
    limit(world, name="pods")
    world.settle(5)
    assert used(world) == {"lode.dev/cores": "0", "lode.dev/memory": "0"}
    assert used(world, "pods") is None
    add(world, "a", "b")
    world.settle(5)
    assert used(world) == {"lode.dev/cores": "200", "lode.dev/memory": "0"}
    writes = world.meddler.calls.count("patch resourcequotas/status")
    world.settle(600)
    assert world.meddler.calls.count("patch resourcequotas/status") == writes == 2
    world.start()
    world.settle(10)
    assert "patch resourcequotas/status" not in world.meddler.calls, "a new run finds it written"
    world.remove_pod("a")
    world.settle(5)
    assert used(world)["lode.dev/cores"] == "100"


def test_use_that_somebody_else_overwrites_is_written_again(world: ControllerWorld) -> None:
    limit(world, cores="300")
    add(world, "a")
    world.settle(5)
    wrong = {"status": {"used": {"lode.dev/cores": "7"}}}
    world.api.patch(RESOURCE_QUOTAS, "cards", wrong, namespace="default", subresource="status")
    world.settle(5)
    assert used(world) == {"lode.dev/cores": "100"}


def test_use_that_cannot_be_written_is_tried_again_after_a_minute(world: ControllerWorld) -> None:
    def refuse(what: str, about: Any) -> None:
        if what == "patch resourcequotas/status":
            raise Forbidden("no", status=403)

    world.meddler.before = refuse
    limit(world, cores="300")
    add(world, "a")
    world.settle(30)
    assert placed(world, "a") == ["a"], "nothing is decided by it"
    assert used(world) is None
    world.meddler.before = None
    world.settle(60)
    assert used(world) == {"lode.dev/cores": "100"}
