"""The API server's rules for slices, checked before anything is written. Pure.

A change of several slices cannot be undone after its first write. So invalid input (a profile, a label, a model name)
must be found before, or it would damage the published pool. The rules are those of
k8s.io/kubernetes/pkg/apis/resource/validation that an inventory can break, and those of 1.38 on every version: what
1.37 takes and 1.38 does not would be refused after an upgrade, with all devices of its slice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from driver.errors import Fault
from driver.limits import (
    MAX_ATTRIBUTE_BYTES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_C_IDENTIFIER,
    MAX_COUNTERS,
    is_c_identifier,
    is_dns_label,
)
from driver.model import AttributeValue, Capacity, CounterSet, Device, Slice, Version
from driver.semver import MAX_DIGITS, is_semver, numbers_fit


def faults(slices: Iterable[Slice]) -> tuple[Fault, ...]:
    """All faults of these slices that the API server or an allocator would reject; empty if they can be published."""
    parts = tuple(slices)
    devices = [device for part in parts for device in part.devices]
    sets = [item for part in parts for item in part.counter_sets]
    violations = list(_duplicates("device", (device.name for device in devices)))
    violations += _duplicates("counter set", (item.name for item in sets))
    for item in sets:
        violations += _counter_set(item)
    known = {item.name: set(item.counters) for item in sets}
    for device in devices:
        violations += _device(device)
        violations += _consumption(device, known)
    return tuple(violations)


def _duplicates(what: str, names: Iterable[str]) -> Iterator[Fault]:
    for name, times in Counter(names).items():
        if times > 1:
            yield Fault(f"{what} {name}", f"duplicate name: published {times} times; two cards have the same index")


def _label(where: str, name: str) -> Iterator[Fault]:
    if not is_dns_label(name):
        yield Fault(where, f"must be a DNS label (at most 63 of a-z, 0-9 and -, no - at the ends): {name!r}")


def _counter_set(item: CounterSet) -> Iterator[Fault]:
    where = f"counter set {item.name}"
    yield from _label(where, item.name)
    if not 1 <= len(item.counters) <= MAX_COUNTERS:
        yield Fault(where, f"must have 1 to {MAX_COUNTERS} counters: {len(item.counters)}")
    for name in item.counters:
        yield from _label(f"{where}.{name}", name)


def _device(device: Device) -> Iterator[Fault]:
    where = f"device {device.name}"
    yield from _label(where, device.name)
    total = len(device.attributes) + len(device.capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        yield Fault(where, f"must have at most {MAX_ATTRIBUTES_AND_CAPACITIES} attributes and capacities: {total}")
    if device.scope is not None and device.scope.selector is not None and len(device.scope.selector.terms) > 1:
        count = len(device.scope.selector.terms)
        yield Fault(f"{where}.nodeSelector", f"must have exactly one term: {count}; write one with all requirements")
    for name in (*device.attributes, *device.capacity):
        if name.count("/") > 1:
            yield Fault(f"{where}.{name}", "must have at most one slash, after the domain")
        elif not is_c_identifier(name.rpartition("/")[2]):
            yield Fault(f"{where}.{name}", f"must be a C identifier of at most {MAX_C_IDENTIFIER} characters")
    for name, value in device.attributes.items():
        yield from _attribute(f"{where}.{name}", value)
    for name, capacity in device.capacity.items():
        yield from _capacity(f"{where}.{name}", capacity, shared=device.allow_multiple)


def _attribute(where: str, value: AttributeValue) -> Iterator[Fault]:
    text = value.text if isinstance(value, Version) else value
    if isinstance(text, str) and len(text.encode()) > MAX_ATTRIBUTE_BYTES:
        yield Fault(where, f"must be at most {MAX_ATTRIBUTE_BYTES} bytes: {text!r}")
    if isinstance(value, Version) and not is_semver(value.text):
        yield Fault(where, f"must be a semantic version such as 9.0.0: {value.text!r}")
    elif isinstance(value, Version) and not numbers_fit(value.text):
        yield Fault(where, f"must have at most {MAX_DIGITS} digits in each number: {value.text!r}")
    if value == ():
        yield Fault(where, "must not be an empty list")


def _capacity(where: str, capacity: Capacity, *, shared: bool) -> Iterator[Fault]:
    policy = capacity.policy
    if policy is None or policy.minimum is None:
        return
    default, least, most = policy.default, policy.minimum, policy.maximum or capacity.value
    if not shared:
        yield Fault(where, "must not have a request policy unless the device allows multiple allocations")
    if default is None or not least <= default <= most <= capacity.value:
        yield Fault(
            where, f"minimum <= default <= maximum <= value must hold: {least}, {default}, {most}, {capacity.value}"
        )
    if policy.step is not None and least + policy.step > capacity.value:
        yield Fault(where, f"minimum + step must not exceed the value: {least}, {policy.step}, {capacity.value}")


def _consumption(device: Device, known: dict[str, set[str]]) -> Iterator[Fault]:
    for item in device.consumes:
        absent = set(item.counters) - known.get(item.counter_set, set())
        if absent:
            yield Fault(
                f"device {device.name}",
                f"consumes counters that the pool does not have: {item.counter_set} {sorted(absent)}",
            )
