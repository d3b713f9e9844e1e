"""What the API server would refuse is found before anything is written."""

from dataclasses import replace

import pytest

from driver.model import (
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    RequestPolicy,
    Version,
)
from driver.names import Names
from driver.quantity import Quantity
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults

ONE = Quantity.whole(1)
SET = CounterSet("gpu-0", {"card": ONE})
GOOD = Device("gpu-0", {"lode.dev/index": 0}, {"memory": Capacity(ONE)})


def shared(**policy: Quantity) -> Device:
    capacity = {"slots": Capacity(Quantity.whole(4), RequestPolicy(**policy))}  # type: ignore[arg-type]
    return replace(GOOD, capacity=capacity, allow_multiple=True)


def fields(*devices: Device, sets: tuple[CounterSet, ...] = (SET,)) -> list[str]:
    return [fault.field for fault in faults(build_slices(devices, sets, "node-a", Names()))]


def test_a_valid_device_has_no_faults() -> None:
    assert fields(GOOD, replace(GOOD, name="gpu-1")) == []


@pytest.mark.parametrize(
    ("device", "field"),
    [
        (replace(GOOD, name="GPU_0"), "device GPU_0"),
        (replace(GOOD, name="g" * 64), f"device {'g' * 64}"),
        (replace(GOOD, attributes={"lode.dev/a": "x" * 65}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/a": "é" * 33}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/a": Version("580.65.06")}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/a": Version("9.0")}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/a": ()}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/a": Version(f"1.0.{10**18}")}), "device gpu-0.lode.dev/a"),
        (replace(GOOD, attributes={"lode.dev/not-one": 1}), "device gpu-0.lode.dev/not-one"),
        (replace(GOOD, attributes={"lode.dev/a/b": 1}), "device gpu-0.lode.dev/a/b"),
        (replace(GOOD, capacity={"lode.dev/a/b": Capacity(ONE)}), "device gpu-0.lode.dev/a/b"),
        (replace(GOOD, scope=NodeScope(selector=NodeSelector((NodeSelectorTerm(),) * 2))), "device gpu-0.nodeSelector"),
        (replace(GOOD, attributes={f"lode.dev/a{i}": i for i in range(32)}), "device gpu-0"),
        (replace(GOOD, consumes=(CounterConsumption("gpu-1", {"card": ONE}),)), "device gpu-0"),
        (replace(GOOD, consumes=(CounterConsumption("gpu-0", {"cards": ONE}),)), "device gpu-0"),
        (replace(shared(default=ONE, minimum=ONE), allow_multiple=False), "device gpu-0.slots"),
        (shared(default=Quantity.whole(5), minimum=ONE), "device gpu-0.slots"),
        (shared(minimum=ONE), "device gpu-0.slots"),
        (shared(default=ONE, minimum=ONE, step=Quantity.whole(4)), "device gpu-0.slots"),
    ],
)
def test_each_breach_is_found_and_its_field_named(device: Device, field: str) -> None:
    assert fields(device) == [field]


def test_two_devices_of_one_name_are_found() -> None:
    assert fields(GOOD, GOOD) == ["device gpu-0"]


def test_counter_sets_are_checked_too() -> None:
    assert fields(GOOD, sets=(CounterSet("set_0", {}), CounterSet("a", {"x.y": ONE}))) == [
        "counter set set_0",
        "counter set set_0",
        "counter set a.x.y",
    ]


def test_all_faults_are_reported_at_once() -> None:
    bad = replace(GOOD, name="GPU_0", attributes={"lode.dev/a": "x" * 65, "lode.dev/b": Version("1")})
    assert len(fields(bad)) == 3
