"""Allocations, their configuration and consumers."""

from collections.abc import Iterable
from math import isfinite
from typing import Any, cast

from driver.limits import MAX_PARAMETERS_DEPTH
from driver.model import Allocation, Consumer, DeviceId, OpaqueConfig, Result
from driver.quantity import Quantity
from driver.wire.fields import Json, by_short_name, many, sparse, text, texts
from driver.wire.nodes import node_selector_from, node_selector_to
from driver.wire.taints import toleration_from, toleration_to


def allocation_from(raw: Json) -> Allocation:
    """``status.allocation``."""
    devices = raw.get("devices") or {}
    return Allocation(
        results=many(devices.get("results"), _result_from),
        config=many(devices.get("config"), config_from),
        nodes=node_selector_from(raw["nodeSelector"]) if raw.get("nodeSelector") else None,
        timestamp=text(raw.get("allocationTimestamp")),
    )


def _result_from(raw: Json) -> Result:
    consumed = [*by_short_name(raw.get("consumedCapacity") or {}, text(raw["driver"]))]
    return Result(
        request=text(raw["request"]),
        device=DeviceId(text(raw["driver"]), text(raw["pool"]), text(raw["device"])),
        share_id=text(raw.get("shareID")),
        consumed={name: Quantity.parse(str(value)) for name, _, value in consumed},
        admin_access=bool(raw.get("adminAccess")),
        tolerations=many(raw.get("tolerations"), toleration_from),
        binding_conditions=texts(raw.get("bindingConditions")),
        binding_failure_conditions=texts(raw.get("bindingFailureConditions")),
        skip_node_operations=texts(raw.get("skipNodeOperations")),
        qualified=frozenset(name for name, qualified, _ in consumed if qualified),
    )


def config_from(raw: Json) -> OpaqueConfig:
    """An opaque configuration of a claim, a class or an allocation.

    Anybody may write anything into the parameters. So invalid ones make nothing else of the object unreadable.
    """
    opaque = raw.get("opaque") or {}
    parameters = opaque.get("parameters") or {}
    problem = _problem_of(parameters)
    return OpaqueConfig(
        text(opaque.get("driver")),
        {} if problem else parameters,
        texts(raw.get("requests")),
        text(raw.get("source")),
        problem,
    )


def _problem_of(parameters: object) -> str:
    """The reason why nobody can use these parameters; "" if they can be used."""
    if not isinstance(parameters, dict):
        return "not an object; write fields into it"
    level: list[Any] = [parameters]
    for _ in range(MAX_PARAMETERS_DEPTH):
        level = [part for value in level for part in _parts(value)]
        if not level:
            return ""
        if any(isinstance(value, float) and not isfinite(value) for value in level):
            return "a number is out of range; use a smaller one"
    return f"nested deeper than {MAX_PARAMETERS_DEPTH} levels; remove what is nested in them"


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("Json", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def allocation_to(allocation: Allocation) -> Json:
    """``status.allocation`` as JSON."""
    devices = sparse(
        results=[_result_to(result) for result in allocation.results],
        config=[
            sparse(
                source=entry.source,
                requests=list(entry.requests),
                opaque={"driver": entry.driver, "parameters": dict(entry.parameters)},
            )
            for entry in allocation.config
        ],
    )
    return sparse(
        devices=devices,
        nodeSelector=node_selector_to(allocation.nodes) if allocation.nodes else None,
        allocationTimestamp=allocation.timestamp,
    )


def _result_to(result: Result) -> Json:
    return sparse(
        request=result.request,
        driver=result.device.driver,
        pool=result.device.pool,
        device=result.device.device,
        shareID=result.share_id,
        consumedCapacity={
            f"{result.device.driver}/{name}" if name in result.qualified else name: str(value)
            for name, value in result.consumed.items()
        },
        adminAccess=result.admin_access,
        tolerations=[toleration_to(item) for item in result.tolerations],
        bindingConditions=list(result.binding_conditions),
        bindingFailureConditions=list(result.binding_failure_conditions),
        skipNodeOperations=list(result.skip_node_operations),
    )


def consumer_to(consumer: Consumer) -> Json:
    """An entry of ``status.reservedFor`` as JSON."""
    known = sparse(apiGroup=consumer.api_group, resource=consumer.resource, name=consumer.name, uid=consumer.uid)
    return known | dict(consumer.unknown)
