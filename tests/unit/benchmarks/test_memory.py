"""The clusters of the memory benchmark are what an API server could hold, and the controller can read all of them."""

import json
from dataclasses import replace

import pytest

from benchmarks.memory.__main__ import judge
from benchmarks.memory.measure import Start
from benchmarks.memory.objects import WAITING, cluster, devices
from benchmarks.memory.sizes import SIZES, Size
from controller.allocation import Fleet
from controller.state import State
from driver.kube.reflector import Upserted
from driver.names import Names
from tests.unit.controller.allocation.small_fleets import most_placed

SMALL = [replace(size, nodes=3, claims=6, pods=9) for size in SIZES[:2]]


def taken_in(size: Size) -> tuple[State, list[str]]:
    """A state of everything, and what cannot be decoded."""
    state, unreadable = State(Fleet(), Names()), list[str]()
    for resource, stored in cluster(size).items():
        for number in range(stored.count):
            raw = {"apiVersion": resource.api_version, "kind": resource.kind, **json.loads(stored.text(number))}
            found = state.apply(state.decode(Upserted(resource, raw))).unreadable
            unreadable += [str(one.fault) for one in found]
    return state, unreadable


@pytest.mark.parametrize("size", SMALL, ids=lambda size: size.name)
def test_the_objects_are_as_many_as_the_table_says_and_all_can_be_read(size: Size) -> None:
    state, unreadable = taken_in(size)
    assert unreadable == []
    assert (len(state.nodes), len(state.claims), len(state.pods)) == (3, 7, 10)
    assert devices(size) == 3 * 8 * (1 if size.name.startswith("whole") else 20)
    assert len(state.devices.ledger.usage_snapshot()) == 6
    assert sum(view.pods for view in state.nodes.values()) == 9


@pytest.mark.parametrize("size", SMALL, ids=lambda size: size.name)
def test_the_waiting_pod_can_be_placed(size: Size) -> None:
    state, _ = taken_in(size)
    claim = state.claims[f"default/{WAITING}"].claim
    assert len(most_placed(state.devices, [claim])) == 3


def test_every_bar_that_is_missed_is_named() -> None:
    size = replace(SIZES[0], peak_bar=100, settled_bar=50, ready_bar=0)
    assert judge(size, Start(100, 50, 999, 1, 0)) == "met"
    assert judge(size, Start(101, 51, 1, 1, 0)) == "peak 101 > 100, settled 51 > 50"
    assert judge(SIZES[0], Start(1, 1, 1, 1, 1)) == "-"
