"""Opaque parameters of claims and classes, ``apiVersion: lode.dev/v1alpha1``. Pure.

The controller reads them before it allocates, and the kubelet plugin before it prepares. An unknown field is an error
and is never ignored: a claim that asks for something must get it or be refused with the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from driver.errors import Fault, InvalidInput
from driver.model import OpaqueConfig
from driver.names import Names
from driver.nvidia_dra import translated

_MOST_MEMBERS: Final = 1_000_000
_MOST_LEVELS: Final = 8
_MOST_KINDS: Final = 8
_MOST_LABELS: Final = 16
_MOST_CONSTRAINTS: Final = 4
_LONGEST_WAIT_SECONDS: Final = 7 * 24 * 3600


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubGroupConfig(_Parameters):
    """Sub-groups of a gang, such as the pods of one replica. Each starts whole or not at all."""

    label: str = Field(min_length=1, max_length=317)
    """Key of a pod label. Members with the same value form a sub-group; those without the label are in none."""
    size: int = Field(ge=1, le=_MOST_MEMBERS, strict=True)
    """With how many members a sub-group is whole."""
    min_available: int = Field(default=1, alias="minAvailable", ge=1, le=_MOST_MEMBERS, strict=True)
    """How many whole sub-groups must start together."""


def _pairs(labels: object) -> tuple[tuple[str, str], ...]:
    """The labels in one order, as a value that can be compared and hashed."""
    if isinstance(labels, Mapping) and all(isinstance(text, str) for pair in labels.items() for text in pair):
        return tuple(sorted(labels.items()))
    raise PydanticCustomError("match_labels", "must be an object with texts as values, such as role: decode")


class SubGroupKind(SubGroupConfig):
    """Sub-groups of some of the members, such as those of the replicas that decode."""

    match_labels: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_pairs)] = Field(
        default=(), alias="matchLabels", max_length=_MOST_LABELS
    )
    """Labels of the members that these sub-groups are of, as pairs. A member is of the first kind that it matches."""


def _qualified(name: str) -> str:
    domain, slash, identifier = name.partition("/")
    if not (domain and slash and identifier) or "/" in identifier:
        raise PydanticCustomError(
            "attribute_name", "must be the qualified name of a device attribute, such as lode.dev/ibCluster"
        )
    return name


class GangConstraint(_Parameters):
    """What the devices of all members have to have in common, or apart: the values of one attribute."""

    same_set: Annotated[str, AfterValidator(_qualified)] | None = Field(default=None, alias="sameSet")
    """The attribute of which every member has the same set of values, such as the same rails."""
    same: Annotated[str, AfterValidator(_qualified)] | None = None
    """The attribute of which all devices of all members have one value, such as the type of a card, instead."""
    distinct: Annotated[str, AfterValidator(_qualified)] | None = None
    """The attribute of which no two members have the same value, instead."""
    mode: Literal["required", "preferred"] = "required"
    """Whether the gang waits until it can be met, or meets it where that costs nothing."""

    @model_validator(mode="after")
    def _is_one(self) -> "GangConstraint":
        if sum(attribute is not None for attribute in (self.same_set, self.same, self.distinct)) != 1:
            raise PydanticCustomError("constraint_kind", "must have one of sameSet, same and distinct")
        return self

    @property
    def kind(self) -> Literal["sameSet", "same", "distinct"]:
        """Name of the field that is set."""
        return "sameSet" if self.same_set is not None else "same" if self.same is not None else "distinct"

    @property
    def attribute(self) -> str:
        """The attribute that it is about."""
        return self.same_set or self.same or self.distinct or ""


def _about_different(constraints: tuple[GangConstraint, ...]) -> tuple[GangConstraint, ...]:
    attributes = [constraint.attribute for constraint in constraints]
    twice = sorted({one for one in attributes if attributes.count(one) > 1})
    if twice:
        raise PydanticCustomError("constraint_twice", "{keys}: one constraint for each", {"keys": ", ".join(twice)})
    return constraints


class GangConfig(_Parameters):
    """The pods that start together or not at all. Without fields: the pods of one owner, as many as it makes."""

    name: str | None = Field(default=None, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    """The pods of the namespace that name the same gang. Default: the pod's group, or the pods of its owner."""
    min_available: int | None = Field(default=None, alias="minAvailable", ge=1, le=_MOST_MEMBERS, strict=True)
    """How many must start together. Default: all, which only a group or an owner can tell."""
    sub_group: SubGroupConfig | None = Field(default=None, alias="subGroup")
    """If set, members form sub-groups. Then as many members must start together as whole sub-groups must have."""
    sub_groups: tuple[SubGroupKind, ...] | None = Field(
        default=None, alias="subGroups", min_length=1, max_length=_MOST_KINDS
    )
    """The same for kinds of sub-groups, each with a size and a minimum of its own."""
    constraints: Annotated[tuple[GangConstraint, ...], AfterValidator(_about_different)] | None = Field(
        default=None, min_length=1, max_length=_MOST_CONSTRAINTS
    )
    """What the devices of all members have to have in common, or apart, whatever claim they are for."""
    on_domain_loss: Literal["wait", "move"] | None = Field(default=None, alias="onDomainLoss")
    """Whether later members wait for the gang's domain when it is gone, or go to another one. Default: wait."""

    @model_validator(mode="after")
    def _says_how_many(self) -> "GangConfig":
        if self.sub_group is not None and self.sub_groups is not None:
            raise PydanticCustomError("gang_sub_groups", "must have at most one of subGroup and subGroups")
        if self.name is not None and self.min_available is None and not self.kinds:
            raise PydanticCustomError(
                "gang_size",
                "minAvailable is missing: nothing else says how many members a gang with a name has; add it, or remove "
                "name to take the pod's group or owner",
            )
        return self

    @property
    def kinds(self) -> tuple[SubGroupKind, ...]:
        """The kinds of sub-groups, however they are said."""
        one = self.sub_group
        if one is not None:
            return (SubGroupKind(label=one.label, size=one.size, minAvailable=one.min_available),)
        return self.sub_groups or ()


class TopologyLevel(_Parameters):
    """A level of the topology in one domain of which a gang, or every group of its members, stays."""

    attribute: Annotated[str, AfterValidator(_qualified)] | None = None
    """Qualified name of the device attribute whose values are the domains."""
    node_label: str | None = Field(default=None, alias="nodeLabel", min_length=1)
    """Key of the node label whose values are the domains, instead."""
    mode: Literal["required", "preferred"] = "required"
    group_size: int | None = Field(default=None, alias="groupSize", ge=1, le=_MOST_MEMBERS, strict=True)
    """Every group of so many members, in the order of ranks, stays in one domain, instead of the whole gang."""
    per_sub_group: bool = Field(default=False, alias="perSubGroup", strict=True)
    """Every sub-group (``GangConfig.sub_group``) stays in one domain, instead of the whole gang."""
    wait_seconds: int | None = Field(default=None, alias="waitSeconds", ge=1, le=_LONGEST_WAIT_SECONDS, strict=True)
    """How long the gang waits for one domain of a preferred level before it takes more than one. Default: not at all"""

    @model_validator(mode="after")
    def _is_one_level(self) -> "TopologyLevel":
        if (self.attribute is None) == (self.node_label is None):
            raise PydanticCustomError("level_key", "must have one of attribute and nodeLabel")
        if self.per_sub_group and self.group_size is not None:
            raise PydanticCustomError("level_groups", "must have at most one of groupSize and perSubGroup")
        if self.wait_seconds is not None and self.mode == "required":
            raise PydanticCustomError(
                "level_wait", "waitSeconds has no meaning in mode required; remove it, or use mode preferred"
            )
        return self

    @property
    def key(self) -> str:
        """Name of the attribute, or key of the label."""
        return self.attribute or self.node_label or ""


def _distinct(levels: tuple[TopologyLevel, ...]) -> tuple[TopologyLevel, ...]:
    keys = [level.key for level in levels]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise PydanticCustomError("level_twice", "{keys}: a level can be listed once", {"keys": ", ".join(twice)})
    return levels


class AlignmentConfig(_Parameters):
    """Another claim of the pod, whose devices have a value of an attribute in common with those of this one."""

    claim: str = Field(min_length=1, max_length=63)
    """Name of the other claim's entry in ``spec.resourceClaims`` of the pod."""
    attribute: Annotated[str, AfterValidator(_qualified)]
    """Qualified name of the device attribute, as of ``matchAttribute``."""
    mode: Literal["required", "preferred"] = "required"
    """Whether the pod waits for such devices, or takes others if there are none now."""


PlacementPolicy = Literal["firstFit", "binpack", "spread"]


class PlacementConfig(_Parameters):
    """Preferences among suitable nodes and devices, and the pods that start together (``PlacementConfig``)."""

    policy: PlacementPolicy = "firstFit"
    """The first that fit, in the order of names; the most used; the least used. Among nodes as well, unless
    ``nodePolicy`` is set."""
    node_policy: PlacementPolicy | None = Field(default=None, alias="nodePolicy")
    """The same among nodes, and among the domains of a gang. Default: ``policy``."""
    locality: Literal["preferred", "none"] | None = None
    """Whether several cards should be close to one another. Default: preferred under binpack and spread."""
    memory_percent: int | None = Field(default=None, alias="memoryPercent", ge=1, le=100, strict=True)
    """Memory of each share, in per cent of its card's, instead of ``capacity.requests.memory``."""
    align_with: AlignmentConfig | None = Field(default=None, alias="alignWith")
    """If set, the devices are beside those of another claim of the pod."""
    gang: GangConfig | None = None
    """If set, the pod starts together with others or not at all."""
    topology: Annotated[tuple[TopologyLevel, ...], AfterValidator(_distinct)] | None = Field(
        default=None, min_length=1, max_length=_MOST_LEVELS
    )
    """Where the gang stays together: levels of the topology, outermost first."""


SharingStrategy = Literal["none", "timeSlicing", "mps", "hamiCore"]
Interval = Literal["default", "short", "medium", "long"]
"""Length of a GPU's time slice, in the terms of ``nvidia-smi compute-policy --set-timeslice``."""


class GpuConfig(_Parameters):
    """Options for preparing allocated GPUs (kind ``GpuConfig``)."""

    sharing: SharingStrategy = "none"
    """How tenants of one card share it. ``none``: they see the amounts they are allocated, and nothing enforces them.
    ``timeSlicing``: the driver takes turns. ``mps``: one MPS daemon serves the card, and enforces pinned memory and
    active threads. ``hamiCore``: a library in the container enforces memory and cores."""
    interval: Interval | None = None
    """Length of the time slice, under ``timeSlicing``; one for all tenants of a card. Default: the driver's."""

    @model_validator(mode="after")
    def _is_one_strategy(self) -> "GpuConfig":
        if self.interval is not None and self.sharing != "timeSlicing":
            raise PydanticCustomError(
                "sharing_interval",
                "interval has a meaning only with sharing timeSlicing; remove it, or use sharing timeSlicing",
            )
        return self


class NpuConfig(_Parameters):
    """Options for preparing allocated NPUs (kind ``NpuConfig``)."""

    sharing: Literal["none"] = "none"
    """How tenants of one card are isolated beyond the amounts they are allocated."""


class MigConfig(_Parameters):
    """Options for preparing allocated MIG partitions (kind ``MigConfig``). There are none."""


Parameters = PlacementConfig | GpuConfig | NpuConfig | MigConfig

_KINDS: Mapping[str, type[Parameters]] = {
    kind.__name__: kind for kind in (PlacementConfig, GpuConfig, NpuConfig, MigConfig)
}

_SENTENCES: Final[Mapping[str, str]] = {
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "missing": "is missing; set it",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have an entry",
    "too_long": "must have at most {max_length} entries",
}
"""Descriptions of valid values, by the type of pydantic's error."""

_INNER: Final[Mapping[str, type[_Parameters]]] = {
    "alignWith": AlignmentConfig,
    "gang": GangConfig,
    "subGroup": SubGroupConfig,
    "subGroups": SubGroupKind,
    "constraints": GangConstraint,
    "topology": TopologyLevel,
}


@dataclass(frozen=True, slots=True)
class Configured:
    """Parameters and the requests they are for (all of the claim if none is named)."""

    parameters: Parameters
    requests: tuple[str, ...] = ()


def main_request(request: str) -> str:
    """``main`` of ``main`` or ``main/sub``."""
    return request.partition("/")[0]


def applies_to(entry: OpaqueConfig | Configured, request: str) -> bool:
    """True if a config entry is for ``request``: no names means all, and ``main`` means each ``main/sub``."""
    return not entry.requests or request in entry.requests or main_request(request) in entry.requests


def sharing_of(config: Iterable[OpaqueConfig], names: Names, request: str) -> str:
    """The strategy by which a request's devices are shared, with the time slice if one is set (``timeSlicing long``).

    Shares of one card must have the same. The last entry that names a strategy counts; entries of the class come before
    those of the claim. An unknown strategy counts as ``none``: it is refused elsewhere.
    """
    found = "none"
    for entry in config:
        if not names.reads_parameters_of(entry.driver) or not applies_to(entry, request):
            continue
        try:
            parameters = _in_our_terms(entry, names, "")
        except InvalidInput:
            continue
        if parameters.get("kind") == GpuConfig.__name__:
            sharing, interval = parameters.get("sharing"), parameters.get("interval")
            if isinstance(sharing, str):
                found = sharing if sharing in get_args(SharingStrategy) else "none"
                if found == "timeSlicing" and interval in get_args(Interval) and interval != "default":
                    found = f"{found} {interval}"
    return found


def _in_our_terms(entry: OpaqueConfig, names: Names, field: str) -> Mapping[str, Any]:
    """The parameters of an entry, also of one for NVIDIA's DRA driver; raises as ``translated``."""
    return entry.parameters if entry.driver == names.driver else translated(entry.parameters, names, field)


def parameters_of(
    config: Iterable[OpaqueConfig],
    names: Names,
    subject: str,
    field: str = "spec.devices.config",
    kind: str = "",
    *,
    of_class: bool = False,
) -> tuple[Configured, ...]:
    """The parameters for this driver, in order; entries for other drivers are left out.

    Args:
        subject: the object with the parameters, such as ``ResourceClaim team-a/train``; ``field``: its field.
        kind: if set, entries of any other kind are left out unread.
        of_class: whether the object is a DeviceClass. It can join no pods to a gang.

    Raises:
        InvalidInput: unknown apiVersion, kind, field or value; carries every fault. The author of the object must act.
    """
    configured: list[Configured] = []
    faults: list[Fault] = []
    for index, entry in enumerate(config):
        if not names.reads_parameters_of(entry.driver) or (kind and entry.parameters.get("kind") != kind):
            continue
        where = f"{field}[{index}].opaque.parameters"
        if entry.problem:
            faults.append(Fault(where, entry.problem))
            continue
        try:
            value = _decode(_in_our_terms(entry, names, where), names, where)
        except InvalidInput as error:
            faults += error.faults
        else:
            faults += _belongs_in_a_claim(value, where) if of_class else ()
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
        # A list with a faulty entry also counts as too short, which says nothing more.
        told = [entry for entry in error.errors() if entry["type"] != "too_short" or not entry["input"]]
        faults += [_fault(dict(entry), field, model) for entry in told]
    if faults:
        raise InvalidInput("parameters", faults)
    return value


def _fault(entry: Mapping[str, Any], field: str, model: type[_Parameters]) -> Fault:
    where = field + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        name, known = _known(model, entry["loc"])
        remedy = f"{name} has {known}" if known else f"{name} has no fields"
        return Fault(where, f"unknown field; remove it ({remedy})")
    if entry["type"] == "literal_error":
        return Fault(where, f"unsupported value: {entry['input']!r}; use {entry['ctx']['expected']}")
    return Fault(where, f"{_sentence(entry)} (found {entry['input']!r})")


def _sentence(entry: Mapping[str, Any]) -> str:
    """Describes valid values in terms of JSON; else in pydantic's own words."""
    kind = entry["type"]
    names = [part for part in entry["loc"] if isinstance(part, str)]
    if kind == "model_type" and (inner := _INNER.get(names[-1])):
        return f"must be an object; its fields are {', '.join(_fields(inner))}"
    limits: Mapping[str, Any] = entry.get("ctx") or {}
    return _SENTENCES[kind].format(**limits) if kind in _SENTENCES else str(entry["msg"])


def _known(model: type[_Parameters], path: Sequence[str | int]) -> tuple[str, str]:
    """The type with the unknown field at the path, and its known fields."""
    fields = [part for part in path if isinstance(part, str)]
    inner = _INNER.get(fields[-2]) if len(fields) > 1 else None
    holder, name = (inner, fields[-2]) if inner else (model, model.__name__)
    return name, ", ".join(_fields(holder))


def _fields(model: type[_Parameters]) -> list[str]:
    return [field.alias or key for key, field in model.model_fields.items()]


def _belongs_in_a_claim(value: Parameters, field: str) -> Iterable[Fault]:
    if not isinstance(value, PlacementConfig):
        return
    joins = "it would join pods that have nothing to do with each other"
    why = {"gang": joins, "topology": joins, "align_with": "it would name a claim in pods that have no such claim"}
    for name in [name for name in why if name in value.model_fields_set]:
        shown = PlacementConfig.model_fields[name].alias or name
        yield Fault(
            f"{field}.{shown}", f"not allowed in a DeviceClass: {why[name]}; move it to the ResourceClaimTemplate"
        )
