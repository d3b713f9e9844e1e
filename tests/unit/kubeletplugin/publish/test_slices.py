"""Published slices become the wanted ones by few writes, and nobody ever takes a state in between for a whole pool."""

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.model import Capacity, CounterConsumption, CounterSet, Device, Slice, Taint
from driver.names import Names
from driver.quantity import Quantity
from driver.wire import slice_from
from kubeletplugin.publish.slices import (
    Action,
    Create,
    Delete,
    DesiredPool,
    Update,
    build_slices,
    plan_writes,
    same_content,
)

NAMES = Names()
HEAD = "node-a-lode.dev-"
Pool = dict[str, dict[str, Any]]


def device(index: int, *, counted: bool = False, tainted: bool = False, memory: int = 1) -> Device:
    return Device(
        name=f"gpu-{index}",
        attributes={"lode.dev/index": index},
        capacity={"memory": Capacity(Quantity.whole(memory * 1024**3, "BinarySI"))},
        consumes=(CounterConsumption("set-0", {"card": Quantity.whole(1)}),) if counted else (),
        taints=(Taint("lode.dev/unhealthy"),) if tainted else (),
    )


def wanted(devices: Sequence[Device], sets: int = 0, uid: str = "node-uid") -> DesiredPool:
    counter_sets = [CounterSet(f"set-{i}", {"card": Quantity.whole(1)}) for i in range(sets)]
    return DesiredPool("node-a", uid, build_slices(devices, counter_sets, "node-a", NAMES))


class Server:
    """Keeps slices as the API server does and notes every state a consumer may see."""

    def __init__(self) -> None:
        self.pool: Pool = {}
        self.seen: list[Pool] = []
        self._version = 0

    def apply(self, action: Action) -> None:
        self._version += 1
        match action:
            case Delete(name, uid, version):
                metadata = self.pool.pop(name)["metadata"]
                assert (metadata["uid"], metadata["resourceVersion"]) == (uid, version)
            case Create():
                body = action.object
                name = body["metadata"]["name"]
                assert name not in self.pool
                self._store({**deepcopy(body), "metadata": {**body["metadata"], "uid": f"uid-{self._version}"}})
            case Update():
                body = action.object
                known = self.pool[body["metadata"]["name"]]
                assert body["metadata"]["resourceVersion"] == known["metadata"]["resourceVersion"]
                self._store(deepcopy(body))
        self.seen.append(deepcopy(self.pool))

    def _store(self, body: dict[str, Any]) -> None:
        body["metadata"]["resourceVersion"] = str(self._version)
        for item in body["spec"].get("devices", ()):
            for taint in item.get("taints", ()):
                taint.setdefault("timeAdded", f"2027-01-01T00:00:{self._version % 60:02d}Z")
        self.pool[body["metadata"]["name"]] = body

    def publish(self, goal: DesiredPool) -> tuple[Action, ...]:
        actions = plan_writes(goal, self.pool.values())
        for action in actions:
            self.apply(action)
        return actions


def generations(pool: Pool) -> dict[int, list[Slice]]:
    found: dict[int, list[Slice]] = {}
    for item in pool.values():
        part = slice_from(item)
        found.setdefault(part.generation, []).append(part)
    return found


def complete(pool: Pool) -> list[int]:
    """Generations a consumer could take for complete: some slice's count equals the number of slices."""
    return [g for g, parts in generations(pool).items() if any(part.slice_count == len(parts) for part in parts)]


def usable(pool: Pool) -> list[Slice] | None:
    """What consumers use: the highest generation, if complete."""
    found = generations(pool)
    if not found or max(found) not in complete(pool):
        return None
    return sorted(found[max(found)], key=lambda part: part.name)


def is_published(goal: DesiredPool, pool: Pool) -> bool:
    found = usable(pool)
    parts = sorted(goal.slices, key=lambda part: part.name)
    return (
        found is not None
        and len(found) == len(pool) == len(parts)
        and all(same_content(one, other) for one, other in zip(found, parts, strict=True))
        and all(item["metadata"]["ownerReferences"][0] == goal.owner for item in pool.values())
    )


# Cutting


@pytest.mark.parametrize(
    ("count", "counted", "tainted", "parts"),
    [
        (0, False, False, 1),
        (128, False, False, 1),
        (129, False, False, 2),
        (64, True, False, 1),
        (65, True, False, 2),
        (65, False, True, 2),
    ],
)
def test_a_slice_holds_128_devices_or_64_where_counters_or_taints_are_used(
    count: int, counted: bool, tainted: bool, parts: int
) -> None:
    made = build_slices(
        [device(i, counted=counted, tainted=tainted and i == 0) for i in range(count)], (), "node-a", NAMES
    )
    assert len(made) == parts
    assert {part.slice_count for part in made} == {parts}
    assert [d.name for part in made for d in part.devices] == [f"gpu-{i}" for i in range(count)]


def test_counter_sets_have_slices_of_their_own_at_most_eight_in_each() -> None:
    parts = wanted([device(0, counted=True)], sets=17).slices
    assert [(len(part.counter_sets), len(part.devices)) for part in parts] == [(8, 0), (8, 0), (1, 0), (0, 1)]


def test_a_pool_without_devices_is_one_empty_slice() -> None:
    (part,) = build_slices((), (), "node-a", NAMES)
    assert (part.devices, part.counter_sets, part.slice_count) == ((), (), 1)


def test_slices_are_found_in_the_order_of_their_devices() -> None:
    parts = build_slices([device(i) for i in range(1500)], (), "node-a", NAMES)
    assert [part.name for part in parts] == sorted(part.name for part in parts)
    assert parts[0].name == "node-a-lode.dev-devices-000"


def test_slice_names_of_long_node_names_are_valid_and_differ() -> None:
    """The beginning of the Node's uid, and not of a name, keeps them apart."""
    uids = ("1a2b3c4d-", "5e6f7a8b-")
    names = [build_slices((), (), f"{'n' * 240}.com", NAMES, uid)[0].name for uid in uids]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) and len(name) <= 253 for name in names)
    assert names[0] == f"{'n' * 222}x1a2b3c4d-lode.dev-devices-000"
    assert build_slices((), (), "n" * 231, NAMES, "1a2b3c4d-")[0].name == f"{'n' * 231}-lode.dev-devices-000"


# Planning


def test_the_first_publication_creates_everything_under_generation_one() -> None:
    server = Server()
    goal = wanted([device(i, counted=True) for i in range(70)], sets=1)
    actions = server.publish(goal)
    assert [type(action) for action in actions] == [Create, Create, Create]
    assert set(generations(server.pool)) == {1}
    assert is_published(goal, server.pool)


def test_publishing_again_writes_nothing() -> None:
    server = Server()
    goal = wanted([device(i, tainted=True) for i in range(3)])
    server.publish(goal)
    assert server.publish(goal) == ()


def test_a_change_of_one_slice_keeps_the_generation() -> None:
    server = Server()
    devices = [device(i) for i in range(200)]
    server.publish(wanted(devices))
    goal = wanted([*devices[:-1], device(199, memory=2)])
    assert [type(action) for action in server.publish(goal)] == [Update]
    assert set(generations(server.pool)) == {1}
    assert is_published(goal, server.pool)


def test_a_change_of_two_slices_raises_the_generation_of_all() -> None:
    server = Server()
    server.publish(wanted([device(i) for i in range(300)]))
    goal = wanted([device(i, memory=2) if i in (0, 150) else device(i) for i in range(300)])
    assert [type(action) for action in server.publish(goal)] == [Update, Update, Update]
    assert set(generations(server.pool)) == {2}


@pytest.mark.parametrize(("before", "after", "kinds"), [(200, 100, [Delete, Update]), (100, 200, [Update, Create])])
def test_adding_or_removing_a_slice_raises_the_generation(before: int, after: int, kinds: list[type]) -> None:
    server = Server()
    server.publish(wanted([device(i) for i in range(before)]))
    goal = wanted([device(i) for i in range(after)])
    assert [type(action) for action in server.publish(goal)] == kinds
    assert set(generations(server.pool)) == {2}
    assert is_published(goal, server.pool)


def test_slices_the_kubelet_wiped_are_made_again_without_touching_those_that_are_left() -> None:
    server = Server()
    goal = wanted([device(i) for i in range(300)])
    server.publish(goal)
    del server.pool[goal.slices[1].name]
    assert [type(action) for action in server.publish(goal)] == [Create]
    assert is_published(goal, server.pool)


def test_quantities_are_compared_by_value_and_taints_without_their_time() -> None:
    server = Server()
    goal = wanted([device(0, tainted=True, memory=1)])
    server.publish(goal)
    (item,) = server.pool.values()
    item["spec"]["devices"][0]["capacity"]["memory"]["value"] = "1048576Ki"
    item["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    assert plan_writes(goal, server.pool.values()) == ()


def test_a_taint_that_stays_keeps_its_time() -> None:
    server = Server()
    server.publish(wanted([device(0, tainted=True)]))
    (item,) = server.pool.values()
    since = item["spec"]["devices"][0]["taints"][0]["timeAdded"]
    server.publish(wanted([device(0, tainted=True, memory=2)]))
    (item,) = server.pool.values()
    assert item["spec"]["devices"][0]["taints"][0]["timeAdded"] == since


def test_the_owner_is_mended_without_a_new_generation() -> None:
    server = Server()
    devices = [device(i) for i in range(200)]
    server.publish(wanted(devices, uid="old"))
    goal = wanted(devices, uid="new")
    assert [type(action) for action in server.publish(goal)] == [Update, Update]
    assert set(generations(server.pool)) == {1}
    assert is_published(goal, server.pool)
    assert server.publish(goal) == ()


def test_other_metadata_of_a_slice_is_left_alone() -> None:
    server = Server()
    server.publish(wanted([device(0)]))
    (item,) = server.pool.values()
    item["metadata"]["labels"] = {"team": "a"}
    server.publish(wanted([device(1)]))
    (item,) = server.pool.values()
    assert item["metadata"]["labels"] == {"team": "a"}


def test_a_slice_of_that_name_in_another_pool_is_deleted_and_made_anew() -> None:
    server = Server()
    goal = wanted([device(0)])
    server.publish(goal)
    (item,) = server.pool.values()
    item["spec"]["pool"]["name"] = "elsewhere"
    assert [type(action) for action in server.publish(goal)] == [Delete, Create]
    assert is_published(goal, server.pool)


@pytest.mark.parametrize(
    "odd", [{"pool": None}, {"pool": {"name": ["n"]}}, {"devices": [5]}, {"devices": [{"name": []}]}]
)
def test_a_slice_that_cannot_be_decoded_is_deleted_and_made_anew(odd: dict[str, Any]) -> None:
    server = Server()
    goal = wanted([device(index, counted=True) for index in range(65)])
    server.publish(goal)
    newest = max(generations(server.pool))
    name = min(server.pool)
    server.pool[name]["spec"] |= odd
    assert [type(action) for action in server.publish(goal)] == [Delete, Update, Create]
    assert is_published(goal, server.pool)
    assert min(generations(server.pool)) > newest


# Laws


def small_pool(memories: list[int], counters: int) -> DesiredPool:
    """Slices of one device each, so that a pool of several is small."""
    counter_slices = counters if memories else 0
    blank = replace(
        build_slices((), (), "node-a", NAMES)[0],
        slice_count=counter_slices + max(len(memories), 1),
        devices=(),
        counter_sets=(),
    )
    return DesiredPool(
        "node-a",
        "node-uid",
        (
            *(
                replace(
                    blank,
                    name=f"{HEAD}counters-{i:03d}",
                    counter_sets=(CounterSet(f"set-{i}", {"card": Quantity.whole(1)}),),
                )
                for i in range(counter_slices)
            ),
            *(
                replace(
                    blank,
                    name=f"{HEAD}devices-{i:03d}",
                    devices=(device(i, memory=memory, counted=counters > 0),),
                )
                for i, memory in enumerate(memories)
            ),
        )
        or (replace(blank, name=f"{HEAD}devices-000"),),
    )


inventories = st.builds(small_pool, st.lists(st.sampled_from([1, 2]), max_size=4), st.integers(0, 2))


def never_misleading(states: Iterable[Pool], *goals: DesiredPool) -> None:
    for pool in states:
        found = usable(pool)
        assert len(complete(pool)) <= 1
        if found is not None:
            contents = [part.devices for part in found]
            assert any(
                contents == [part.devices for part in sorted(goal.slices, key=lambda part: part.name)] for goal in goals
            )


@given(inventories, inventories)
def test_a_plan_carried_out_is_what_was_wanted_and_the_next_plan_is_empty(old: DesiredPool, new: DesiredPool) -> None:
    server = Server()
    for goal in (old, new):
        server.publish(goal)
        assert is_published(goal, server.pool)
        assert plan_writes(goal, server.pool.values()) == ()


@given(inventories, inventories)
def test_consumers_see_the_old_pool_or_the_new_or_an_incomplete_one(old: DesiredPool, new: DesiredPool) -> None:
    server = Server()
    server.publish(old)
    server.seen.clear()
    server.publish(new)
    never_misleading(server.seen, old, new)


@given(st.lists(inventories, min_size=2, max_size=4), st.data())
def test_stopping_after_any_write_and_changing_the_goal_never_misleads_anybody(
    goals: list[DesiredPool], data: st.DataObject
) -> None:
    server = Server()
    for goal in goals:
        actions = plan_writes(goal, server.pool.values())
        for action in actions[: data.draw(st.integers(0, len(actions)))]:
            server.apply(action)
    server.publish(goals[-1])
    never_misleading(server.seen, *goals)
    assert is_published(goals[-1], server.pool)


def test_a_slice_left_behind_never_joins_one_that_is_about_to_change() -> None:
    server = Server()
    old, new = small_pool([1, 1], 0), small_pool([2, 2], 0)
    server.publish(old)
    last = server.pool[old.slices[1].name]
    last["spec"]["pool"]["generation"] = 2
    server.publish(new)
    never_misleading(server.seen, old, new)
    assert is_published(new, server.pool)


@given(inventories, st.data())
def test_whatever_is_wiped_comes_back(goal: DesiredPool, data: st.DataObject) -> None:
    server = Server()
    server.publish(goal)
    for name in data.draw(st.sets(st.sampled_from(sorted(server.pool)))):
        del server.pool[name]
    server.publish(goal)
    never_misleading(server.seen, goal)
    assert is_published(goal, server.pool)
