"""The rules for ResourceSlices: devices, attributes, capacities, counters, taints (resource.k8s.io/v1)."""

from collections.abc import Iterator

from driver import limits
from driver.errors import Fault
from driver.kube.api import Object
from driver.quantity import Quantity
from memoryapi import rules
from memoryapi.rules import invalid, required
from memoryapi.versions import V1_38, Version

_VALUES = ("int", "bool", "string", "version")
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")
_EFFECTS = ("None", "NoSchedule", "NoExecute")


def slice_faults(spec: Object, old: Object, kubernetes: Version) -> Iterator[Fault]:
    """The faults of the spec of a slice, which was ``old`` before; {} for a new one."""
    yield from rules.driver_name("spec.driver", spec.get("driver"))
    yield from _pool_faults("spec.pool", spec.get("pool", {}))
    yield from _node_faults("spec", spec, (*_NODE_FIELDS, "perDeviceNodeSelection"), wanted=True)
    if len(_terms(spec)) > 1:
        yield _several_terms("spec")
    if "devices" in spec and "sharedCounters" in spec:
        yield invalid("spec", "...", "only one of `sharedCounters` or `devices` is allowed")
    yield from _devices_faults(spec, old, kubernetes)
    sets = spec.get("sharedCounters", [])
    yield from rules.at_most("spec.sharedCounters", sets, limits.MAX_COUNTER_SETS)
    yield from rules.distinct("spec.sharedCounters", [item.get("name") for item in sets])
    for i, item in enumerate(sets):
        yield from rules.dns_label(f"spec.sharedCounters[{i}].name", item.get("name"))
        yield from _counter_faults(f"spec.sharedCounters[{i}].counters", item)


def _several_terms(path: str) -> Fault:
    return invalid(f"{path}.nodeSelector.nodeSelectorTerms", "...", "must have exactly one node selector term")


def _devices_faults(spec: Object, old: Object, kubernetes: Version) -> Iterator[Fault]:
    """The faults of the devices. What is not changed may break a rule that came after it was written.

    1.37 looks at capacities and taints of each device that are changed, and at all else. 1.38 looks at no device or
    at all of them.
    """
    devices, before = spec.get("devices", []), {device.get("name"): device for device in old.get("devices", [])}
    per_device = spec.get("perDeviceNodeSelection", False)
    is_checked = kubernetes < V1_38 or devices != old.get("devices", [])
    are_nodes_checked = is_checked or per_device != old.get("perDeviceNodeSelection", False)
    for i, device in enumerate(devices if are_nodes_checked else ()):
        yield from _node_faults(f"spec.devices[{i}]", device, _NODE_FIELDS, wanted=per_device)
        if kubernetes >= V1_38 and len(_terms(device)) > 1:
            yield _several_terms(f"spec.devices[{i}]")
    if not is_checked:
        return
    more = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    yield from rules.at_most("spec.devices", devices, limits.MAX_DEVICES_RESTRICTED if more else limits.MAX_DEVICES)
    yield from rules.distinct("spec.devices", [device.get("name") for device in devices])
    for i, device in enumerate(devices):
        known = before.get(device.get("name"), {}) if kubernetes < V1_38 else {}
        yield from _device_faults(f"spec.devices[{i}]", device, known, kubernetes)


def _pool_faults(path: str, pool: Object) -> Iterator[Fault]:
    yield from rules.pool_name(f"{path}.name", pool.get("name"))
    if pool.get("generation", 0) < 0:
        yield invalid(f"{path}.generation", pool["generation"], "must be greater than or equal to zero")
    if pool.get("resourceSliceCount", 0) <= 0:
        yield invalid(f"{path}.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero")


def _node_faults(path: str, holder: Object, names: tuple[str, ...], *, wanted: bool) -> Iterator[Fault]:
    given = [name for name in names if name in holder]
    if not wanted:
        for name in given:
            yield invalid(f"{path}.{name}", holder[name], "needs `perDeviceNodeSelection` in the slice")
        return
    for name in given:
        if not holder[name]:
            yield invalid(f"{path}.{name}", holder[name], "must be left out instead of empty or false")
    if len(given) != 1:
        yield required(f"{path}: exactly one of {', '.join(f'`{name}`' for name in names)}")
    if "nodeSelector" in holder and not _terms(holder):
        yield required(f"{path}.nodeSelector.nodeSelectorTerms")


def _terms(holder: Object) -> list[Object]:
    terms: list[Object] = holder.get("nodeSelector", {}).get("nodeSelectorTerms") or []
    return terms


def _device_faults(path: str, device: Object, known: Object, kubernetes: Version) -> Iterator[Fault]:
    yield from rules.dns_label(f"{path}.name", device.get("name"))
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    facts = len(attributes) + len(capacity)
    if facts > limits.MAX_ATTRIBUTES_AND_CAPACITIES:
        yield invalid(
            path, facts, f"attributes and capacities together must be at most {limits.MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
    for name, value in attributes.items():
        yield from rules.qualified_name(f"{path}.attributes", name, kubernetes)
        yield from _attribute_faults(f"{path}.attributes[{name}]", value, kubernetes)
    for name, value in capacity.items() if capacity != known.get("capacity") else ():
        yield from rules.qualified_name(f"{path}.capacity", name, kubernetes)
        yield from _capacity_faults(
            f"{path}.capacity[{name}]", value, shared=bool(device.get("allowMultipleAllocations"))
        )
    consumed = device.get("consumesCounters", [])
    yield from rules.at_most(f"{path}.consumesCounters", consumed, limits.MAX_CONSUMED_COUNTER_SETS)
    yield from rules.distinct(f"{path}.consumesCounters", [item.get("counterSet") for item in consumed])
    for i, item in enumerate(consumed):
        yield from rules.dns_label(f"{path}.consumesCounters[{i}].counterSet", item.get("counterSet"))
        yield from _counter_faults(f"{path}.consumesCounters[{i}].counters", item)
    if device.get("taints", []) != known.get("taints"):
        yield from _taint_list_faults(f"{path}.taints", device.get("taints", []))
    yield from _condition_faults(path, device)


def _attribute_faults(path: str, value: Object, kubernetes: Version) -> Iterator[Fault]:
    given = [name for name in _VALUES if name in value]
    if len(given) != 1:
        yield invalid(path, value, "exactly one value must be specified")
    for name in ("string", "version"):
        text = value.get(name)
        if text is not None and len(text.encode()) > limits.MAX_ATTRIBUTE_BYTES:
            yield Fault(f"{path}.{name}", f"Too long: may not be more than {limits.MAX_ATTRIBUTE_BYTES} bytes")
    if "version" in value:
        yield from rules.version(f"{path}.version", value["version"], kubernetes)


def _counter_faults(path: str, item: Object) -> Iterator[Fault]:
    counters = item.get("counters", {})
    if not counters:
        yield required(path)
    yield from rules.at_most(path, counters, limits.MAX_COUNTERS)
    for name in counters:
        yield from rules.dns_label(path, name)


def _capacity_faults(path: str, capacity: Object, *, shared: bool) -> Iterator[Fault]:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    where = f"{path}.requestPolicy"
    if not shared:
        yield Fault(where, "Forbidden: allowed only for a device with `allowMultipleAllocations`")
        return
    value = Quantity.parse(capacity["value"])
    default = Quantity.parse(policy["default"]) if "default" in policy else None
    if "validValues" in policy and "validRange" in policy:
        yield Fault(where, "Forbidden: exactly one of `validValues` and `validRange`")
    elif default is None and ("validValues" in policy or "validRange" in policy):
        yield required(f"{where}.default")
    elif default is not None and "validValues" in policy:
        yield from _values_faults(where, policy["validValues"], default, value)
    elif default is not None and "validRange" in policy:
        yield from _range_faults(where, policy["validRange"], default, value)


def _values_faults(path: str, texts: list[str], default: Quantity, value: Quantity) -> Iterator[Fault]:
    yield from rules.at_most(f"{path}.validValues", texts, limits.MAX_VALID_VALUES)
    values = [Quantity.parse(text) for text in texts]
    if values != sorted(set(values)):
        yield invalid(f"{path}.validValues", texts, "must be sorted in ascending order, each value once")
    for i, item in enumerate(values):
        if item > value:
            yield invalid(f"{path}.validValues[{i}]", texts[i], f"must be less than or equal to capacity value {value}")
    if default not in values:
        yield invalid(f"{path}.default", str(default), "must be one of the valid values")


def _range_faults(path: str, bounds: Object, default: Quantity, value: Quantity) -> Iterator[Fault]:
    where = f"{path}.validRange"
    least, most, step = (Quantity.parse(bounds[name]) if name in bounds else None for name in ("min", "max", "step"))
    if least is None:
        yield required(f"{where}.min")
        return
    if default < least:
        yield invalid(f"{path}.default", str(default), f"must not be below min {least}")
    if least > value:
        yield invalid(f"{where}.min", str(least), f"must be less than or equal to capacity value {value}")
    if most is not None and (most > value or most < least):
        yield invalid(f"{where}.max", str(most), f"must be between min and capacity value {value}")
    if most is not None and default > most:
        yield invalid(f"{path}.default", str(default), f"must not be above max {most}")
    if step is not None:
        yield from _step_faults(path, step, least, [default, *([most] if most is not None else [])], value)


def _step_faults(path: str, step: Quantity, least: Quantity, stops: list[Quantity], value: Quantity) -> Iterator[Fault]:
    where = f"{path}.validRange.step"
    if step <= Quantity(0):
        yield invalid(where, str(step), "must be greater than zero")
        return
    if least + step > value:
        yield invalid(where, str(step), f"one step {least + step} is larger than capacity value {value}")
    for stop in stops:
        if (stop.value - least.value) % step.value:
            yield invalid(where, str(stop), f"value is not a multiple of a given step ({step}) from ({least})")


def taint_faults(path: str, taint: Object) -> Iterator[Fault]:
    """The faults of a device taint."""
    yield from rules.label_key(f"{path}.key", taint.get("key"))
    yield from rules.one_of(f"{path}.effect", taint.get("effect"), _EFFECTS)


def _taint_list_faults(path: str, taints: list[Object]) -> Iterator[Fault]:
    yield from rules.at_most(path, taints, limits.MAX_DEVICE_TAINTS)
    for i, taint in enumerate(taints):
        yield from taint_faults(f"{path}[{i}]", taint)


def _condition_faults(path: str, device: Object) -> Iterator[Fault]:
    awaited, failures = device.get("bindingConditions", []), device.get("bindingFailureConditions", [])
    if bool(awaited) != bool(failures):
        yield invalid(f"{path}.bindingConditions", awaited, "needs bindingFailureConditions, and the other way round")
    for name, conditions in (("bindingConditions", awaited), ("bindingFailureConditions", failures)):
        yield from rules.at_most(f"{path}.{name}", conditions, limits.MAX_BINDING_CONDITIONS)
        yield from rules.distinct(f"{path}.{name}", conditions)
        for i, condition in enumerate(conditions):
            yield from rules.label_key(f"{path}.{name}[{i}]", condition)
    for condition in set(awaited) & set(failures):
        yield invalid(f"{path}.bindingFailureConditions", condition, "must not be in bindingConditions as well")
