"""What the state keeps of a large cluster is small: one more object costs little, for it shares most of its parts."""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.memory.objects import cluster
from benchmarks.memory.sizes import SIZES
from controller.allocation import Fleet
from controller.state import State
from driver.kube.api import NODES, PODS, RESOURCE_SLICES, Resource
from driver.kube.reflector import Upserted
from driver.names import Names

PARTITIONED = next(size for size in SIZES if size.name.startswith("all"))
SMALL = replace(PARTITIONED, nodes=30, claims=0, pods=400)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


def bytes_each(resource: Resource, first: int) -> float:
    """The memory of one object of the kind, counted from the second half of all objects."""
    state, stored = State(Fleet(), Names()), cluster(SMALL)[resource]
    sizes = []
    for number in range(stored.count):
        if number in (first, stored.count - 1):
            if resource == RESOURCE_SLICES:
                state.devices.ledger.free_counters()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        state.apply(state.decode(Upserted(resource, json.loads(stored.text(number)))))
    return (sizes[1] - sizes[0]) / (stored.count - 1 - first)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("resource", "kilobytes"),
    [
        pytest.param(RESOURCE_SLICES, 25, id="a slice of a node with 160 devices in 4 slices"),
        pytest.param(PODS, 1, id="a pod with two containers"),
        pytest.param(NODES, 4, id="a node"),
    ],
)
def test_an_object_more_costs_little(resource: Resource, kilobytes: float) -> None:
    # What other threads of the process take meanwhile counts too; it does not come three times.
    counts = (bytes_each(resource, cluster(SMALL)[resource].count // 2) for _ in range(3))
    assert any(count < kilobytes * 1000 for count in counts)
