"""What the API server demands of slices, checked before anything is written. Pure.

A change of several slices cannot be taken back once its first write is done; so that bad input (a profile, a label, a
model name) never damages what is published, it must be found before. The rules are those of
k8s.io/kubernetes/pkg/apis/resource/validation as far as an inventory can break them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from driver.errors import Fault
from driver.limits import (
    MAX_ATTRIBUTE_BYTES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_COUNTERS,
    is_c_identifier,
    is_dns_label,
)
from driver.model import AttributeValue, Capacity, CounterSet, Device, Slice, Version
from driver.semver import is_semver


def faults(slices: Iterable[Slice]) -> tuple[Fault, ...]:
    """Everything the API server or an allocator would refuse in these slices; empty if they can be published."""
    parts = tuple(slices)
    devices = [device for part in parts for device in part.devices]
    sets = [item for part in parts for item in part.counter_sets]
    found = list(_twins("device", (device.name for device in devices)))
    found += _twins("counter set", (item.name for item in sets))
    for item in sets:
        found += _counter_set(item)
    known = {item.name: set(item.counters) for item in sets}
    for device in devices:
        found += _device(device)
        found += _consumption(device, known)
    return tuple(found)


def _twins(what: str, names: Iterable[str]) -> Iterator[Fault]:
    for name, times in Counter(names).items():
        if times > 1:
            yield Fault(f"{what} {name}", f"published {times} times; two cards have one index")


def _label(where: str, name: str) -> Iterator[Fault]:
    if not is_dns_label(name):
        yield Fault(where, f"{name!r} is no DNS label: at most 63 of a-z, 0-9 and -, no - at the ends")


def _counter_set(item: CounterSet) -> Iterator[Fault]:
    where = f"counter set {item.name}"
    yield from _label(where, item.name)
    if not 1 <= len(item.counters) <= MAX_COUNTERS:
        yield Fault(where, f"has {len(item.counters)} counters; 1 to {MAX_COUNTERS} are allowed")
    for name in item.counters:
        yield from _label(f"{where}.{name}", name)


def _device(device: Device) -> Iterator[Fault]:
    where = f"device {device.name}"
    yield from _label(where, device.name)
    total = len(device.attributes) + len(device.capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        yield Fault(
            where, f"has {total} attributes and capacities; at most {MAX_ATTRIBUTES_AND_CAPACITIES} are allowed"
        )
    for name in (*device.attributes, *device.capacity):
        if not is_c_identifier(name.rpartition("/")[2]):
            yield Fault(f"{where}.{name}", "the name is no C identifier of at most 32 characters")
    for name, value in device.attributes.items():
        yield from _attribute(f"{where}.{name}", value)
    for name, capacity in device.capacity.items():
        yield from _capacity(f"{where}.{name}", capacity, shared=device.allow_multiple)


def _attribute(where: str, value: AttributeValue) -> Iterator[Fault]:
    text = value.text if isinstance(value, Version) else value
    if isinstance(text, str) and len(text.encode()) > MAX_ATTRIBUTE_BYTES:
        yield Fault(where, f"{text!r} is longer than {MAX_ATTRIBUTE_BYTES} bytes")
    if isinstance(value, Version) and not is_semver(value.text):
        yield Fault(where, f"{value.text!r} is no semantic version such as 9.0.0")
    if value == ():
        yield Fault(where, "is an empty list")


def _capacity(where: str, capacity: Capacity, *, shared: bool) -> Iterator[Fault]:
    policy = capacity.policy
    if policy is None or policy.minimum is None:
        return
    default, least, most = policy.default, policy.minimum, policy.maximum or capacity.value
    if not shared:
        yield Fault(where, "has a request policy, but the device is not shared")
    if default is None or not least <= default <= most <= capacity.value:
        yield Fault(
            where, f"must hold minimum {least} <= default {default} <= maximum {most} <= value {capacity.value}"
        )
    if policy.step is not None and least + policy.step > capacity.value:
        yield Fault(where, f"minimum {least} plus step {policy.step} exceeds the value {capacity.value}")


def _consumption(device: Device, known: dict[str, set[str]]) -> Iterator[Fault]:
    for item in device.consumes:
        absent = set(item.counters) - known.get(item.counter_set, set())
        if absent:
            yield Fault(
                f"device {device.name}", f"draws on {item.counter_set} {sorted(absent)}, which the pool does not have"
            )
