"""The objects of Dynamic Resource Allocation (resource.k8s.io/v1), as immutable values. Pure.

They have only the fields that decisions need; ``driver.wire`` translates from and to the API's JSON.
Attribute names are always fully qualified (``lode.dev/type``); capacity names of devices never have the domain of
their own driver (``unqualify``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver.quantity import Quantity

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version as an attribute value (``device.attributes[..].version``)."""

    text: str


@dataclass(frozen=True, slots=True)
class UnreadableValue:
    """The value of an attribute that cannot be read, and why. What reads it fails on the device; nothing else does."""

    why: str


Scalar = bool | int | str | Version
AttributeValue = Scalar | tuple[Scalar, ...] | UnreadableValue


class SharedAttributes(Mapping[str, AttributeValue]):
    """Attributes of a device, in two parts: ``common`` with other devices, and its ``own``. No name is in both."""

    __slots__ = ("common", "own")

    def __init__(self, common: Mapping[str, AttributeValue], own: Mapping[str, AttributeValue]):
        self.common = common
        self.own = own

    def __getitem__(self, name: str) -> AttributeValue:
        return self.own[name] if name in self.own else self.common[name]

    def get(self, name: str, default: Any = None) -> Any:
        """See ``Mapping``, whose own method raises and catches an error for each name that is missing."""
        return self.own[name] if name in self.own else self.common.get(name, default)

    def __iter__(self) -> Iterator[str]:
        yield from self.common
        yield from self.own

    def __len__(self) -> int:
        return len(self.common) + len(self.own)

    def __repr__(self) -> str:
        return repr(dict(self))


def qualify(name: str, driver: str) -> str:
    """``name`` of an attribute or capacity, with the driver's domain if it has none."""
    return name if "/" in name else f"{driver}/{name}"


def unqualify(name: str, driver: str) -> str:
    """``name`` of a capacity without the driver's own domain: with and without it, it is one name.

    Kubernetes takes both spellings for one from 1.38 on, in slices, requests and allocations.
    """
    return name.removeprefix(f"{driver}/") if "/" in name else name


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The rule for how much of a capacity one allocation consumes (``capacity[..].requestPolicy``)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount of a device. A policy says how requests for part of it are rounded."""

    value: Quantity
    policy: RequestPolicy | None = None
    qualified: bool = False
    """Whether the slice has its name with the driver's own domain, and so do allocations."""


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """The consumption of one counter set of the pool by a device while it is allocated."""

    counter_set: str
    counters: Mapping[str, Quantity]
    compatibility_groups: tuple[str, ...] = ()


EXCLUDING_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Effects of taints that keep a device from claims that do not tolerate them (resource.k8s.io/v1)."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A device taint (slice or DeviceTaintRule)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    time_added: str = ""
    rule: str = field(default="", compare=False)
    """The DeviceTaintRule that taints the device; "" if its slice does."""

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"

    @property
    def excludes(self) -> bool:
        """Whether it keeps its device from claims that do not tolerate it."""
        return self.effect in EXCLUDING_EFFECTS


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule: taints every device that its selector matches ("" matches any); without a selector, none."""

    name: str
    taint: Taint
    selects: bool = False
    driver: str = ""
    pool: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A device toleration of a request; copied into the allocation's results."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One ``matchExpressions`` or ``matchFields`` entry of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All requirements must hold; an empty term matches no node."""

    expressions: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """At least one term must hold."""

    terms: tuple[NodeSelectorTerm, ...]


@dataclass(frozen=True, slots=True)
class NodeScope:
    """The nodes where a slice or device can be used: one, selected ones, all, or as each device says."""

    node_name: str = ""
    selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """One allocatable device of a slice."""

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    consumes: tuple[CounterConsumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    allow_multiple: bool = False
    scope: NodeScope | None = None
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that the devices of a pool share."""

    name: str
    counters: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice: part of one pool of one driver; holds devices or counter sets, never both."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    scope: NodeScope
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """One way to satisfy a request: ``exactly``, or one entry of ``firstAvailable`` (then it has a name)."""

    device_class: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    """Unknown fields. They may change the meaning, so the claim must be refused."""


@dataclass(frozen=True, slots=True)
class Request:
    """A named request of a claim; ``prioritized`` if its wants come from ``firstAvailable``."""

    name: str
    wants: tuple[Want, ...]
    prioritized: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of the named requests (all if none) must have the same, or distinct, values of one attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


@dataclass(frozen=True, slots=True)
class OpaqueConfig:
    """Driver parameters for some requests (all if none named)."""

    driver: str
    parameters: JsonObject
    requests: tuple[str, ...] = ()
    source: str = ""
    problem: str = ""
    """The reason why the parameters cannot be read; they are empty then. It concerns only their driver."""


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """``spec.devices`` of a claim or claim template."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    """A device in the whole cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Result:
    """One allocated device (``status.allocation.devices.results[..]``)."""

    request: str
    """``main`` or ``main/sub``."""
    device: DeviceId
    share_id: str = ""
    consumed: Mapping[str, Quantity] = field(default_factory=dict)
    """By name, without the driver's own domain (``unqualify``)."""
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    qualified: frozenset[str] = frozenset()
    """The names in ``consumed`` that are written with the driver's own domain, as its slice has them."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a claim. ``nodes`` is None if every node can use them."""

    results: tuple[Result, ...]
    config: tuple[OpaqueConfig, ...] = ()
    nodes: NodeSelector | None = None
    timestamp: str = ""
    """A time in RFC 3339, whole seconds. If it is empty, kube-scheduler sets it and then fails for ever."""

    @property
    def node_name(self) -> str:
        """The one node that the allocation is bound to, or ""."""
        if self.nodes is None or len(self.nodes.terms) != 1 or self.nodes.terms[0].expressions:
            return ""
        match self.nodes.terms[0].fields:
            case (NodeRequirement("metadata.name", "In", (name,)),):
                return name
        return ""


@dataclass(frozen=True, slots=True)
class Consumer:
    """An entry of ``status.reservedFor``."""

    resource: str
    name: str
    uid: str
    api_group: str = ""
    unknown: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """Fields of a later version of the API. They are written as they were read."""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return self.resource == "pods" and not self.api_group


@dataclass(frozen=True, slots=True)
class Alignment:
    """The devices of two claims of a pod must have a value of an attribute in common (``alignWith``).

    Attributes:
        attribute: its fully qualified name.
        claims: UIDs of the claim that says it and of the other one.
        entries: the names of their entries in ``spec.resourceClaims`` of the pod, in this order.
        requests: requests of the first claim that it is for; all if none.
        preferred: whether the pod takes other devices if it cannot be had.
        holder: the entry of the claim that is allocated already; "" if both are decided together.
        values: what the devices of that claim have in common, with the types; None if both are decided together.
    """

    attribute: str
    claims: tuple[str, str]
    entries: tuple[str, str]
    requests: tuple[str, ...] = ()
    preferred: bool = False
    holder: str = ""
    values: frozenset[tuple[type, Scalar]] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    resource_version: str = ""
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    owner_pod_uid: str = ""
    """UID of the pod that controls a generated claim, else ""."""
    owner_pod_group_uid: str = ""
    """UID of the PodGroup that controls a generated claim, else ""."""
    problem: str = ""
    """The reason why its spec cannot be decoded; the spec is empty then. Its allocation is known all the same."""
    aligned: tuple[Alignment, ...] = ()
    """What it must have in common with other claims of the pod that it is decided for (``alignWith``)."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
