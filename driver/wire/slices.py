"""ResourceSlices and their devices."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from driver.model import (
    AttributeValue,
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    NodeScope,
    RequestPolicy,
    Scalar,
    Slice,
    UnreadableValue,
    Version,
)
from driver.quantity import Quantity
from driver.semver import Semver
from driver.wire.fields import Json, by_short_name, many, sparse, text, texts
from driver.wire.nodes import node_selector_from, node_selector_to
from driver.wire.taints import taint_from


@lru_cache(maxsize=4096)
def _version(value: str) -> Version:
    """The version, if its numbers have at most 64 bits. Up to 1.37, API servers store larger ones.

    Raises:
        ValueError: it is none.
    """
    Semver.parse(value)
    return Version(value)


_SCALARS: Final[tuple[tuple[str, Callable[[Any], Scalar]], ...]] = (
    ("int", int),
    ("bool", bool),
    ("string", text),
    ("version", lambda value: _version(text(value))),
)
_LISTS: Final = tuple((f"{key}s", convert) for key, convert in _SCALARS)


def slice_from(raw: Json) -> Slice:
    """A ResourceSlice object as a value."""
    spec = raw["spec"]
    devices = many(spec.get("devices"), lambda device: device_from(device, spec["driver"]))
    return slice_with(raw, devices, counter_sets_from(spec.get("sharedCounters")))


def slice_with(raw: Json, devices: tuple[Device, ...], counter_sets: tuple[CounterSet, ...]) -> Slice:
    """A ResourceSlice object as a value, with its devices and counter sets."""
    spec = raw["spec"]
    return Slice(
        name=text(raw["metadata"]["name"]),
        driver=text(spec["driver"]),
        pool=text(spec["pool"]["name"]),
        generation=int(spec["pool"].get("generation", 0)),
        slice_count=int(spec["pool"].get("resourceSliceCount", 0)),
        scope=_scope_from(spec),
        devices=devices,
        counter_sets=counter_sets,
        skip_node_operations=texts(spec.get("skipNodeOperations")),
    )


def counter_sets_from(raw: Sequence[Json] | None) -> tuple[CounterSet, ...]:
    """``spec.sharedCounters``."""
    return many(
        raw,
        lambda s: CounterSet(
            text(s["name"]), {k: Quantity.parse(str(c["value"])) for k, c in (s.get("counters") or {}).items()}
        ),
    )


def _scope_from(raw: Json) -> NodeScope:
    return NodeScope(
        node_name=text(raw.get("nodeName")),
        selector=node_selector_from(raw["nodeSelector"]) if raw.get("nodeSelector") else None,
        all_nodes=bool(raw.get("allNodes")),
        per_device=bool(raw.get("perDeviceNodeSelection")),
    )


def device_from(raw: Json, driver: str) -> Device:
    """A device of a slice; attribute names without a domain get the driver's, and those of capacities lose it."""
    scoped = any(raw.get(name) for name in ("nodeName", "nodeSelector", "allNodes"))
    return Device(
        name=text(raw["name"]),
        attributes=attributes_from(raw.get("attributes"), driver),
        capacity={
            name: _capacity_from(value, qualified=qualified)
            for name, qualified, value in by_short_name(raw.get("capacity") or {}, driver)
        },
        consumes=many(
            raw.get("consumesCounters"),
            lambda c: CounterConsumption(
                text(c["counterSet"]),
                {k: Quantity.parse(str(v["value"])) for k, v in c["counters"].items()},
                texts(c.get("compatibilityGroups")),
            ),
        ),
        taints=many(raw.get("taints"), taint_from),
        allow_multiple=bool(raw.get("allowMultipleAllocations")),
        scope=_scope_from(raw) if scoped else None,
        binds_to_node=bool(raw.get("bindsToNode")),
        binding_conditions=texts(raw.get("bindingConditions")),
        binding_failure_conditions=texts(raw.get("bindingFailureConditions")),
    )


def attributes_from(raw: Mapping[str, Json] | None, driver: str) -> dict[str, AttributeValue]:
    """Attributes by qualified name. Of two spellings of one name the one with the domain counts, as in Kubernetes."""
    raw, own = raw or {}, f"{driver}/"
    return {
        name if "/" in name else own + name: _attribute_from(value)
        for name, value in raw.items()
        if "/" in name or own + name not in raw
    }


def _attribute_from(raw: Json) -> AttributeValue:
    try:
        for key, convert in _SCALARS:
            if (value := raw.get(key)) is not None:
                return convert(value)
        for key, convert in _LISTS:
            if items := raw.get(key):
                return tuple([convert(item) for item in items])
    except (TypeError, ValueError) as error:
        return UnreadableValue(str(error))
    return UnreadableValue("it has no value of a kind that is known")


def _capacity_from(raw: Json, *, qualified: bool) -> Capacity:
    policy = raw.get("requestPolicy")
    if not policy:
        return Capacity(Quantity.parse(str(raw["value"])), qualified=qualified)
    valid_range = policy.get("validRange") or {}

    def amount(source: Json, name: str) -> Quantity | None:
        return Quantity.parse(str(source[name])) if source.get(name) is not None else None

    return Capacity(
        Quantity.parse(str(raw["value"])),
        RequestPolicy(
            default=amount(policy, "default"),
            valid_values=tuple(Quantity.parse(str(value)) for value in policy.get("validValues") or ()),
            minimum=amount(valid_range, "min"),
            maximum=amount(valid_range, "max"),
            step=amount(valid_range, "step"),
        ),
        qualified,
    )


def device_to(device: Device, driver: str) -> Json:
    """A device as JSON; the driver's own domain is left out of attribute names, and of those of capacities that are
    not ``qualified``."""
    own = f"{driver}/"
    return sparse(
        name=device.name,
        attributes={name.removeprefix(own): _attribute_to(value) for name, value in device.attributes.items()},
        capacity={
            own + name if value.qualified else name: _capacity_to(value) for name, value in device.capacity.items()
        },
        consumesCounters=[
            sparse(
                counterSet=c.counter_set,
                counters={name: {"value": str(value)} for name, value in c.counters.items()},
                compatibilityGroups=list(c.compatibility_groups),
            )
            for c in device.consumes
        ],
        taints=[sparse(key=t.key, value=t.value, effect=t.effect, timeAdded=t.time_added) for t in device.taints],
        allowMultipleAllocations=device.allow_multiple,
        bindsToNode=device.binds_to_node,
        bindingConditions=list(device.binding_conditions),
        bindingFailureConditions=list(device.binding_failure_conditions),
    )


def _attribute_to(value: AttributeValue) -> Json:
    if isinstance(value, tuple):
        return {key + "s": item for key, item in _attribute_list(value).items()}
    match value:
        case UnreadableValue():
            return {}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case Version(text):
            return {"version": text}
        case _:
            return {"string": value}


def _attribute_list(values: tuple[Scalar, ...]) -> Json:
    entries = [next(iter(_attribute_to(value).items())) for value in values]
    return {entries[0][0]: [item for _, item in entries]}


def _capacity_to(capacity: Capacity) -> Json:
    raw: Json = {"value": str(capacity.value)}
    if policy := capacity.policy:
        valid_range = {
            name: str(value)
            for name, value in (("min", policy.minimum), ("max", policy.maximum), ("step", policy.step))
            if value is not None
        }
        raw["requestPolicy"] = sparse(
            default=str(policy.default) if policy.default is not None else None,
            validValues=[str(value) for value in policy.valid_values],
            validRange=valid_range,
        )
    return raw


def slice_spec_to(part: Slice) -> Json:
    """The ``spec`` of a ResourceSlice."""
    spec = sparse(
        driver=part.driver,
        pool={"name": part.pool, "generation": part.generation, "resourceSliceCount": part.slice_count},
        nodeName=part.scope.node_name,
        nodeSelector=node_selector_to(part.scope.selector) if part.scope.selector else None,
        allNodes=part.scope.all_nodes,
        perDeviceNodeSelection=part.scope.per_device,
        devices=[device_to(device, part.driver) for device in part.devices],
        sharedCounters=[
            {"name": s.name, "counters": {name: {"value": str(v)} for name, v in s.counters.items()}}
            for s in part.counter_sets
        ],
    )
    if not part.counter_sets:
        spec.setdefault("devices", [])
    return spec
