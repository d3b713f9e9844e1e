"""Opaque parameters of claims and classes, ``apiVersion: lode.dev/v1alpha1``. Pure.

The controller reads them before it allocates, and the kubelet plugin before it prepares. An unknown field is an error
and is never ignored: a claim that asks for something must get it or be refused with the reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from driver.errors import Fault, InvalidInput
from driver.model import OpaqueConfig
from driver.names import Names


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlacementConfig(_Parameters):
    """Which of the suitable nodes and devices are preferred (kind ``PlacementConfig``)."""

    policy: Literal["firstFit", "binpack", "spread"] = "firstFit"
    """The first that fit, in the order of names; the most used; the least used."""
    locality: Literal["preferred", "none"] | None = None
    """Whether several cards should be close to one another. Default: preferred under binpack and spread."""
    memory_percent: int | None = Field(default=None, alias="memoryPercent", ge=1, le=100, strict=True)
    """Memory of each share, in per cent of its card's, instead of ``capacity.requests.memory``."""


class GpuConfig(_Parameters):
    """How allocated GPUs are prepared (kind ``GpuConfig``)."""

    sharing: Literal["none"] = "none"
    """How tenants of one card are isolated beyond the amounts they are allocated."""


class NpuConfig(_Parameters):
    """How allocated NPUs are prepared (kind ``NpuConfig``)."""

    sharing: Literal["none"] = "none"
    """How tenants of one card are isolated beyond the amounts they are allocated."""


class MigConfig(_Parameters):
    """How allocated MIG partitions are prepared (kind ``MigConfig``): exactly as their profile says."""


Parameters = PlacementConfig | GpuConfig | NpuConfig | MigConfig

_KINDS: Mapping[str, type[Parameters]] = {
    kind.__name__: kind for kind in (PlacementConfig, GpuConfig, NpuConfig, MigConfig)
}


@dataclass(frozen=True, slots=True)
class Configured:
    """Parameters and the requests they are for (all of the claim if none is named)."""

    parameters: Parameters
    requests: tuple[str, ...] = ()


def parameters_of(
    config: Iterable[OpaqueConfig], names: Names, subject: str, field: str = "spec.devices.config", kind: str = ""
) -> tuple[Configured, ...]:
    """The parameters for this driver, in order; entries for other drivers are left out.

    Args:
        subject: the object that has them, such as ``ResourceClaim team-a/train``; ``field``: the field of it.
        kind: if set, entries of any other kind are left out unread.

    Raises:
        InvalidInput: unknown apiVersion, kind, field or value; carries every fault. The author of the object must act.
    """
    configured: list[Configured] = []
    faults: list[Fault] = []
    for index, entry in enumerate(config):
        if entry.driver != names.driver or (kind and entry.parameters.get("kind") != kind):
            continue
        try:
            value = _decode(entry.parameters, names, f"{field}[{index}].opaque.parameters")
        except InvalidInput as error:
            faults += error.faults
        else:
            configured.append(Configured(value, entry.requests))
    if faults:
        raise InvalidInput(subject, faults)
    return tuple(configured)


def _decode(raw: Mapping[str, Any], names: Names, field: str) -> Parameters:
    faults = []
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if version != names.parameters_api_version:
        faults.append(Fault(f"{field}.apiVersion", f"unknown version: {version!r}; use {names.parameters_api_version}"))
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        faults.append(Fault(f"{field}.kind", f"unknown kind: {kind!r}; use one of {', '.join(_KINDS)}"))
        raise InvalidInput("parameters", faults)
    content = {name: value for name, value in raw.items() if name not in ("apiVersion", "kind")}
    try:
        value = model.model_validate(content)
    except ValidationError as error:
        faults += [_fault(dict(entry), field, model) for entry in error.errors()]
    if faults:
        raise InvalidInput("parameters", faults)
    return value


def _fault(entry: Mapping[str, Any], field: str, model: type[Parameters]) -> Fault:
    where = ".".join([field, *map(str, entry["loc"])])
    known = ", ".join(field.alias or name for name, field in model.model_fields.items())
    if entry["type"] == "extra_forbidden":
        remedy = f"{model.__name__} has {known}" if known else f"{model.__name__} has no fields"
        return Fault(where, f"unknown field; remove it ({remedy})")
    if entry["type"] == "literal_error":
        return Fault(where, f"unsupported value: {entry['input']!r}; use {entry['ctx']['expected']}")
    return Fault(where, f"{entry['msg']} (found {entry['input']!r})")
