"""The API's JSON objects (resource.k8s.io/v1) to and from the model. Pure translation; field names are the API's.

Decoding keeps everything deciding needs and names every field it does not know that changes a request's meaning.
Encoding leaves out empty fields, as the API server does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from driver.model import (
    NO_VALUE,
    Allocation,
    AttributeValue,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    Consumer,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceId,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    OpaqueConfig,
    Request,
    RequestPolicy,
    Result,
    Scalar,
    Slice,
    Taint,
    TaintRule,
    Toleration,
    Version,
    Want,
)
from driver.quantity import Quantity

Json = dict[str, Any]
T = TypeVar("T")

_KNOWN_WANT_FIELDS = {
    "name", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
}  # fmt: skip


def _many(items: Sequence[Json] | None, decode: Callable[[Json], T]) -> tuple[T, ...]:
    return tuple(decode(item) for item in items or ())


def _quantities(raw: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(str(value)) for name, value in (raw or {}).items()}


def _sparse(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value not in (None, "", (), [], {}, False)}


# Slices


def slice_from(raw: Json) -> Slice:
    """A ResourceSlice object as a value."""
    spec = raw["spec"]
    return Slice(
        name=raw["metadata"]["name"],
        driver=spec["driver"],
        pool=spec["pool"]["name"],
        generation=int(spec["pool"].get("generation", 0)),
        slice_count=int(spec["pool"].get("resourceSliceCount", 0)),
        scope=_scope_from(spec),
        devices=_many(spec.get("devices"), lambda device: device_from(device, spec["driver"])),
        counter_sets=_many(
            spec.get("sharedCounters"),
            lambda s: CounterSet(
                s["name"], {k: Quantity.parse(str(c["value"])) for k, c in (s.get("counters") or {}).items()}
            ),
        ),
        skip_node_operations=tuple(spec.get("skipNodeOperations") or ()),
    )


def _scope_from(raw: Json) -> NodeScope:
    return NodeScope(
        node_name=raw.get("nodeName") or "",
        selector=node_selector_from(raw["nodeSelector"]) if raw.get("nodeSelector") else None,
        all_nodes=bool(raw.get("allNodes")),
        per_device=bool(raw.get("perDeviceNodeSelection")),
    )


def device_from(raw: Json, driver: str) -> Device:
    """A device of a slice; unqualified attribute names get the driver's domain."""
    scoped = any(raw.get(name) for name in ("nodeName", "nodeSelector", "allNodes"))
    return Device(
        name=raw["name"],
        attributes={qualify(k, driver): _attribute_from(v) for k, v in (raw.get("attributes") or {}).items()},
        capacity={name: _capacity_from(value) for name, value in (raw.get("capacity") or {}).items()},
        consumes=_many(
            raw.get("consumesCounters"),
            lambda c: CounterConsumption(
                c["counterSet"],
                {k: Quantity.parse(str(v["value"])) for k, v in c["counters"].items()},
                tuple(c.get("compatibilityGroups") or ()),
            ),
        ),
        taints=_many(raw.get("taints"), taint_from),
        allow_multiple=bool(raw.get("allowMultipleAllocations")),
        scope=_scope_from(raw) if scoped else None,
        binds_to_node=bool(raw.get("bindsToNode")),
        binding_conditions=tuple(raw.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(raw.get("bindingFailureConditions") or ()),
    )


def qualify(name: str, driver: str) -> str:
    """``name`` with the driver's domain where it has none."""
    return name if "/" in name else f"{driver}/{name}"


def _attribute_from(raw: Json) -> AttributeValue:
    def version(text: str) -> Scalar:
        return Version(text)

    kinds = (("int", int), ("bool", bool), ("string", str), ("version", version))
    for key, convert in kinds:
        if raw.get(key + "s") is not None:
            return tuple(convert(item) for item in raw[key + "s"])
    for key, convert in kinds:
        if raw.get(key) is not None:
            return convert(raw[key])
    return NO_VALUE


def _capacity_from(raw: Json) -> Capacity:
    policy = raw.get("requestPolicy")
    if not policy:
        return Capacity(Quantity.parse(str(raw["value"])))
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
    )


def taint_from(raw: Json) -> Taint:
    """A device taint, as slices and DeviceTaintRules write it."""
    return Taint(raw["key"], raw.get("value", ""), raw["effect"], raw.get("timeAdded") or "")


def taint_rule_from(raw: Json) -> TaintRule:
    """A DeviceTaintRule object as a value."""
    spec = raw["spec"]
    selector = spec.get("deviceSelector")
    named = selector or {}
    return TaintRule(
        name=raw["metadata"]["name"],
        taint=taint_from(spec["taint"]),
        selects=selector is not None,
        driver=named.get("driver") or "",
        pool=named.get("pool") or "",
        device=named.get("device") or "",
    )


def device_to(device: Device, driver: str) -> Json:
    """A device as a slice writes it; our own domain is left off attribute names."""
    own = f"{driver}/"
    return _sparse(
        name=device.name,
        attributes={name.removeprefix(own): _attribute_to(value) for name, value in device.attributes.items()},
        capacity={name: _capacity_to(value) for name, value in device.capacity.items()},
        consumesCounters=[
            _sparse(
                counterSet=c.counter_set,
                counters={name: {"value": str(value)} for name, value in c.counters.items()},
                compatibilityGroups=list(c.compatibility_groups),
            )
            for c in device.consumes
        ],
        taints=[_sparse(key=t.key, value=t.value, effect=t.effect, timeAdded=t.time_added) for t in device.taints],
        allowMultipleAllocations=device.allow_multiple,
        bindsToNode=device.binds_to_node,
        bindingConditions=list(device.binding_conditions),
        bindingFailureConditions=list(device.binding_failure_conditions),
    )


def _attribute_to(value: AttributeValue) -> Json:
    if isinstance(value, tuple):
        return {key + "s": item for key, item in _attribute_list(value).items()}
    match value:
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
        raw["requestPolicy"] = _sparse(
            default=str(policy.default) if policy.default is not None else None,
            validValues=[str(value) for value in policy.valid_values],
            validRange=valid_range,
        )
    return raw


def slice_spec_to(part: Slice) -> Json:
    """The ``spec`` of a ResourceSlice."""
    spec = _sparse(
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


# Nodes


def node_selector_from(raw: Json) -> NodeSelector:
    """A core/v1 NodeSelector."""
    return NodeSelector(_many(raw.get("nodeSelectorTerms"), node_term_from))


def node_term_from(raw: Json) -> NodeSelectorTerm:
    """A core/v1 NodeSelectorTerm."""

    def requirement(item: Json) -> NodeRequirement:
        return NodeRequirement(item["key"], item["operator"], tuple(item.get("values") or ()))

    return NodeSelectorTerm(_many(raw.get("matchExpressions"), requirement), _many(raw.get("matchFields"), requirement))


def node_selector_to(selector: NodeSelector) -> Json:
    """A core/v1 NodeSelector as JSON."""

    def requirement(item: NodeRequirement) -> Json:
        return _sparse(key=item.key, operator=item.operator, values=list(item.values))

    return {
        "nodeSelectorTerms": [
            _sparse(
                matchExpressions=[requirement(item) for item in term.expressions],
                matchFields=[requirement(item) for item in term.fields],
            )
            for term in selector.terms
        ]
    }


def only_node(name: str) -> NodeSelector:
    """The selector for exactly one node, in the one shape Kubernetes' node authorization recognises."""
    return NodeSelector((NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", (name,)),)),))


# Claims and classes


def claim_from(raw: Json) -> Claim:
    """A ResourceClaim object as a value."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    owners = metadata.get("ownerReferences") or []
    return Claim(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        spec=claim_spec_from(raw["spec"]),
        allocation=allocation_from(status["allocation"]) if status.get("allocation") is not None else None,
        reserved_for=_many(
            status.get("reservedFor"),
            lambda c: Consumer(c["resource"], c["name"], c["uid"], c.get("apiGroup", "")),
        ),
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        owner_pod_uid=next((o["uid"] for o in owners if o.get("controller") and o["kind"] == "Pod"), ""),
    )


def claim_spec_from(raw: Json) -> ClaimSpec:
    """The ``spec`` of a ResourceClaim or of a ResourceClaimTemplate's ``spec.spec``."""
    devices = raw.get("devices") or {}
    return ClaimSpec(
        requests=_many(devices.get("requests"), _request_from),
        constraints=_many(
            devices.get("constraints"),
            lambda c: Constraint(
                tuple(c.get("requests") or ()), c.get("matchAttribute") or "", c.get("distinctAttribute") or ""
            ),
        ),
        config=_many(devices.get("config"), _config_from),
    )


def _request_from(raw: Json) -> Request:
    if raw.get("exactly") is not None:
        return Request(raw["name"], (_want_from(raw["exactly"]),))
    return Request(raw["name"], _many(raw.get("firstAvailable"), _want_from), prioritized=True)


def _want_from(raw: Json) -> Want:
    return Want(
        device_class=raw.get("deviceClassName", ""),
        name=raw.get("name", ""),
        selectors=_expressions(raw),
        mode=raw.get("allocationMode") or "ExactCount",
        count=int(raw.get("count") or 1),
        admin_access=bool(raw.get("adminAccess")),
        tolerations=_many(raw.get("tolerations"), toleration_from),
        capacity=_quantities((raw.get("capacity") or {}).get("requests")),
        unsupported=tuple(sorted(set(raw) - _KNOWN_WANT_FIELDS)),
    )


def _expressions(raw: Json) -> tuple[str, ...]:
    return tuple((item.get("cel") or {}).get("expression", "") for item in raw.get("selectors") or ())


def toleration_from(raw: Json) -> Toleration:
    """A device toleration."""
    return Toleration(
        raw.get("key", ""),
        raw.get("operator") or "Equal",
        raw.get("value", ""),
        raw.get("effect", ""),
        raw.get("tolerationSeconds"),
    )


def toleration_to(toleration: Toleration) -> Json:
    """A device toleration as JSON."""
    raw = _sparse(key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect)
    return raw if toleration.seconds is None else {**raw, "tolerationSeconds": toleration.seconds}


def _config_from(raw: Json) -> OpaqueConfig:
    opaque = raw.get("opaque") or {}
    return OpaqueConfig(
        opaque.get("driver", ""),
        opaque.get("parameters") or {},
        tuple(raw.get("requests") or ()),
        raw.get("source") or "",
    )


def class_from(raw: Json) -> DeviceClass:
    """A DeviceClass object as a value."""
    spec = raw.get("spec") or {}
    return DeviceClass(raw["metadata"]["name"], _expressions(spec), _many(spec.get("config"), _config_from))


# Allocations


def allocation_from(raw: Json) -> Allocation:
    """``status.allocation``."""
    devices = raw.get("devices") or {}
    return Allocation(
        results=_many(devices.get("results"), _result_from),
        config=_many(devices.get("config"), _config_from),
        nodes=node_selector_from(raw["nodeSelector"]) if raw.get("nodeSelector") else None,
        timestamp=raw.get("allocationTimestamp") or "",
    )


def _result_from(raw: Json) -> Result:
    return Result(
        request=raw["request"],
        device=DeviceId(raw["driver"], raw["pool"], raw["device"]),
        share_id=raw.get("shareID") or "",
        consumed=_quantities(raw.get("consumedCapacity")),
        admin_access=bool(raw.get("adminAccess")),
        tolerations=_many(raw.get("tolerations"), toleration_from),
        binding_conditions=tuple(raw.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(raw.get("bindingFailureConditions") or ()),
        skip_node_operations=tuple(raw.get("skipNodeOperations") or ()),
    )


def allocation_to(allocation: Allocation) -> Json:
    """``status.allocation`` as JSON."""
    devices = _sparse(
        results=[_result_to(result) for result in allocation.results],
        config=[
            _sparse(
                source=entry.source,
                requests=list(entry.requests),
                opaque={"driver": entry.driver, "parameters": dict(entry.parameters)},
            )
            for entry in allocation.config
        ],
    )
    return _sparse(
        devices=devices,
        nodeSelector=node_selector_to(allocation.nodes) if allocation.nodes else None,
        allocationTimestamp=allocation.timestamp,
    )


def _result_to(result: Result) -> Json:
    return _sparse(
        request=result.request,
        driver=result.device.driver,
        pool=result.device.pool,
        device=result.device.device,
        shareID=result.share_id,
        consumedCapacity={name: str(value) for name, value in result.consumed.items()},
        adminAccess=result.admin_access,
        tolerations=[toleration_to(item) for item in result.tolerations],
        bindingConditions=list(result.binding_conditions),
        bindingFailureConditions=list(result.binding_failure_conditions),
        skipNodeOperations=list(result.skip_node_operations),
    )


def consumer_to(consumer: Consumer) -> Json:
    """An entry of ``status.reservedFor`` as JSON."""
    return _sparse(apiGroup=consumer.api_group, resource=consumer.resource, name=consumer.name, uid=consumer.uid)
