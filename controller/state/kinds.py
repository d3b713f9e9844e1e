"""The kinds of objects that the state follows: how each is decoded, and who takes it in. Pure.

Decoding is apart from ``State.apply``, so that it can be done in the thread that reads: the raw objects of a list never
exist all at once, and the thread that decides does not spend its time on them.

Equal parts of objects are kept once (``SharedPods``, ``SharedClaims``): the pods of a Deployment have equal needs,
claims of a template have equal requests, and thousands of objects name the same nodes and namespaces. Only the use of
memory depends on it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from controller.membership import (
    GROUP_SOURCES,
    GangHints,
    Tiers,
    group_from,
    job_from,
    job_set_from,
    stateful_set_from,
    tiers_from,
)
from controller.placement import Needs, storage_class_from, volume_claim_from, volume_from, volume_limits_from
from controller.quotas import Quota, quota_from, unreadable_quota
from controller.state.changes import Followed, Kinds
from controller.state.claims import ClaimRecord, held_record_from, record_from
from controller.state.devices import class_record_from
from controller.state.handlers import (
    ClaimHandler,
    ClassHandler,
    GroupHandler,
    Indexes,
    JobSetHandler,
    PodCounter,
    PodHandler,
    QuotaHandler,
    SliceHandler,
    TaintRuleHandler,
    TemplateHandler,
    WorkloadHandler,
)
from controller.state.knownnodes import (
    NamespaceHandler,
    NodeHandler,
    PodsWithVolumes,
    VolumeClaimHandler,
    VolumeHandler,
    namespace_from,
    node_from,
)
from controller.state.pods import PodView, pod_from
from controller.state.templates import (
    DecodedTemplate,
    is_made_on_demand,
    template_from,
)
from driver.cache_key import cache_key
from driver.errors import Fault, InvalidInput
from driver.kube.api import (
    CSI_NODES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Object,
    Resource,
    Undecoded,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Removed, Restored, Synced, Unreadable
from driver.model import Allocation, ClaimSpec, DeviceId, NodeSelector, Result, Slice
from driver.names import Names
from driver.settings import ControllerSettings
from driver.wire import SharedSlices, taint_rule_from

T = TypeVar("T")

_MOST_NEEDS: Final = 1 << 13
_MOST_SHAPES: Final = 1 << 12
_MOST_TEXTS: Final = 1 << 16


class Kept(Generic[T]):
    """Values of one type. Safe in any thread: a race only keeps a value twice.

    Args:
        key: equal for values that can stand for each other.
        most: how many values are remembered; beyond it, remembering starts anew.
    """

    def __init__(self, key: Callable[[T], Hashable], most: int):
        self._key = key
        self._most = most
        self._values: dict[Hashable, T] = {}

    def one(self, value: T) -> T:
        """Return the value that was seen first of those that equal this one."""
        if len(self._values) >= self._most:
            self._values.clear()
        return self._values.setdefault(self._key(value), value)


class SharedPods:
    """Makes pods share equal parts."""

    def __init__(self) -> None:
        self._needs: Kept[Needs] = Kept(cache_key, _MOST_NEEDS)
        self._hints: Kept[GangHints] = Kept(lambda hints: hints, _MOST_NEEDS)
        self._texts: Kept[str] = Kept(str, _MOST_TEXTS)

    def shared(self, pod: PodView) -> PodView:
        """Return the pod with parts of pods that were seen before."""
        text = self._texts.one
        return replace(
            pod,
            namespace=text(pod.namespace),
            node_name=text(pod.node_name),
            created=text(pod.created),
            needs=self._needs.one(pod.needs),
            gang=pod.gang and self._hints.one(pod.gang),
        )


class SharedClaims:
    """Makes claims share equal parts."""

    def __init__(self) -> None:
        self._specs: Kept[tuple[str, ClaimSpec]] = Kept(lambda pair: pair[0], _MOST_SHAPES)
        self._selectors: Kept[NodeSelector] = Kept(lambda selector: selector, _MOST_TEXTS)
        self._texts: Kept[str] = Kept(str, _MOST_TEXTS)

    def shared(self, record: ClaimRecord) -> ClaimRecord:
        """Return the claim with parts of claims that were seen before."""
        shape, spec = self._specs.one((record.shape, record.claim.spec))
        claim = record.claim
        allocation = claim.allocation and self._allocation(claim.allocation)
        namespace = self._texts.one(claim.namespace)
        claim = replace(claim, namespace=namespace, spec=spec, allocation=allocation)
        return replace(record, shape=shape, claim=claim, created=self._texts.one(record.created))

    def _allocation(self, allocation: Allocation) -> Allocation:
        nodes = allocation.nodes and self._selectors.one(allocation.nodes)
        results = tuple([self._result(result) for result in allocation.results])
        return replace(allocation, nodes=nodes, results=results, timestamp=self._texts.one(allocation.timestamp))

    def _result(self, result: Result) -> Result:
        text, device = self._texts.one, result.device
        return replace(
            result,
            request=text(result.request),
            device=DeviceId(text(device.driver), text(device.pool), text(device.device)),
        )


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """The part of the controller's settings that decisions depend on; as much as is known, the rest is at its default.

    Attributes:
        tiers: the levels that tiers in PodGroups of Volcano stand for.
        closing_node_conditions: patterns of conditions that keep pods from a node while they are true.
        scheduler_names: whose pods get devices; none for any.
        max_unbound_seconds: after this time, a pod loses its devices that got them and was neither bound nor refused.
        also_allocates: as of the ``Names`` of the state, for those who make these.
    """

    tiers: Tiers = field(default_factory=dict)
    closing_node_conditions: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    max_unbound_seconds: float = 300
    also_allocates: tuple[str, ...] = ()


def decision_settings(settings: ControllerSettings) -> DecisionSettings:
    """Return what all of the controller's settings say."""
    return DecisionSettings(
        tiers=tiers_from(settings.volcano_tiers),
        closing_node_conditions=tuple(settings.closing_node_conditions),
        scheduler_names=settings.scheduler_names,
        max_unbound_seconds=settings.max_unbound_seconds,
        also_allocates=settings.also_allocates,
    )


DEVICE_TAINT_RULES_BETA: Final = Resource(
    "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False
)
"""The version in which Kubernetes 1.36 serves device taint rules, if at all."""
VOLUME_RESOURCES: Final = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES)
"""Kinds that say where volumes of pods can be used. While one cannot be read, volumes exclude no node."""
GANG_RESOURCES: Final = (JOBS, STATEFUL_SETS, JOB_SETS, *GROUP_SOURCES, RESOURCE_CLAIM_TEMPLATES)
"""Kinds that say how many members gangs have, where claims and pods do not, and what later members ask for."""
OPTIONAL_RESOURCES: Final = (
    DEVICE_TAINT_RULES,
    DEVICE_TAINT_RULES_BETA,
    NAMESPACES,
    RESOURCE_QUOTAS,
    *VOLUME_RESOURCES,
    *GANG_RESOURCES,
)
"""Kinds of objects that a cluster need not serve, or let this program read."""


def kinds_of(
    indexes: Indexes, counter: PodCounter, claims: ClaimHandler, settings: DecisionSettings, condition_type: str
) -> Kinds:
    """Return what takes in the objects of each kind."""
    names, nodes, gangs = indexes.names, indexes.nodes, indexes.gangs
    volumes, storage = PodsWithVolumes(), nodes.storage
    # Equal parts of objects are kept once, whatever object of these kinds they are in.
    same_pods, same_claims, same_slices = SharedPods(), SharedClaims(), SharedSlices()
    return {
        PODS: Followed(
            lambda obj: same_pods.shared(pod_from(obj, condition_type, names.gang)),
            PodHandler(indexes, counter, volumes),
        ),
        NODES: Followed(
            partial(node_from, names=names, closing=settings.closing_node_conditions),
            NodeHandler(nodes, indexes.revisions, indexes.devices.ledger, indexes.protections),
        ),
        RESOURCE_CLAIMS: Followed(lambda obj: same_claims.shared(record_from(obj)), claims),
        RESOURCE_CLAIM_TEMPLATES: Followed(
            lambda obj: DecodedTemplate(same_claims.shared(template_from(obj)), is_made_on_demand(obj, names)),
            TemplateHandler(indexes.templates, indexes.on_demand, gangs),
        ),
        RESOURCE_SLICES: Followed(partial(_slice, same_slices, names), SliceHandler(indexes)),
        DEVICE_CLASSES: Followed(class_record_from, ClassHandler(indexes)),
        **{
            kind: Followed(taint_rule_from, TaintRuleHandler(indexes, kind.version))
            for kind in (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
        },
        NAMESPACES: Followed(namespace_from, NamespaceHandler(nodes)),
        RESOURCE_QUOTAS: Followed(partial(quota_from, names=names), QuotaHandler(indexes)),
        PERSISTENT_VOLUME_CLAIMS: Followed(volume_claim_from, VolumeClaimHandler(nodes, volumes)),
        PERSISTENT_VOLUMES: Followed(
            volume_from, VolumeHandler(nodes, volumes, storage.put_volume, storage.remove_volume)
        ),
        STORAGE_CLASSES: Followed(
            storage_class_from, VolumeHandler(nodes, volumes, storage.put_class, storage.remove_class)
        ),
        CSI_NODES: Followed(
            volume_limits_from, VolumeHandler(nodes, volumes, storage.put_limits, storage.remove_limits)
        ),
        JOBS: Followed(lambda obj: job_from(obj, names.gang), WorkloadHandler(gangs, JOBS.kind)),
        STATEFUL_SETS: Followed(stateful_set_from, WorkloadHandler(gangs, STATEFUL_SETS.kind)),
        JOB_SETS: Followed(lambda obj: job_set_from(obj, names.gang), JobSetHandler(gangs)),
        **{
            kind: Followed(partial(group_from, source=source, tiers=settings.tiers), GroupHandler(gangs, counter, kind))
            for kind, source in GROUP_SOURCES.items()
        },
    }


def _slice(shared: SharedSlices, names: Names, obj: Object) -> Slice:
    """Return the slice.

    Raises:
        InvalidInput: a slice of our driver is in the pool of another node, and would hide the devices of that node.
    """
    spec = obj["spec"]
    node, pool = spec.get("nodeName") or "", spec["pool"]["name"]
    foreign = pool.endswith(names.pool("")) and pool != names.pool(node)
    if node and spec["driver"] == names.driver and foreign:
        message = f"{pool} is not the pool of the node {node}, which is {names.pool(node)}; delete the slice"
        raise InvalidInput(f"ResourceSlice {obj['metadata']['name']}", [Fault("spec.pool.name", message)])
    return shared.slice_from(obj)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A version of an object as a value."""

    resource: Resource
    key: str
    """``namespace/name``, or ``name``."""
    uid: str
    version: int
    """``metadata.resourceVersion``: versions of one kind are integers that grow with every write (KEP-5504)."""
    value: Any
    """Value for the handler of this kind; None if nothing of the object can be decoded."""
    problem: str = ""
    """Reason why the object, or the part of it that others write, cannot be decoded."""
    listed: int = 0
    """The version of the list that it is in; 0 if it is in none."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted."""

    resource: Resource
    key: str
    uid: str
    version: int


StateDelta = Decoded | Deleted | Synced | Missing | Unreadable | Restored
"""The changes that ``State.apply`` takes in."""


class Decoder:
    """Decodes objects of every kind that the state keeps. Safe in any thread.

    Args:
        kinds: more may be added before anything is decoded.
    """

    def __init__(self, kinds: Kinds):
        self._kinds = kinds

    def delta(self, delta: Delta) -> StateDelta:
        """Decode a report of a reflector. Never fails: an object that cannot be decoded carries the reason."""
        if isinstance(delta, Synced | Missing | Unreadable | Restored):
            return delta
        if isinstance(delta, Removed):
            metadata = delta.object["metadata"]
            return Deleted(delta.resource, object_key(delta.object), metadata.get("uid", ""), version_of(metadata))
        return self.object(delta.resource, delta.object, number_of(delta.listed))

    def object(self, resource: Resource, obj: Object, listed: int = 0) -> Decoded:
        """Decode an object that was read or written. Never fails, as ``delta``."""
        metadata, problem = obj["metadata"], ""
        value: Any = None
        if isinstance(obj, Undecoded):
            problem = obj.problem
            value = unreadable_quota(obj, problem) if resource == RESOURCE_QUOTAS else None
        else:
            try:
                value = self._kinds[resource].decode(obj)
            except Exception as error:  # noqa: BLE001 - whatever it is, no object keeps others from being served
                problem = repr(error)
                value = self._salvaged(resource, obj, problem)
        key, uid = object_key(obj), metadata.get("uid", "")
        return Decoded(resource, key, uid, version_of(metadata), value, problem=problem, listed=listed)

    def _salvaged(self, resource: Resource, obj: Object, problem: str) -> ClaimRecord | Quota | None:
        """Return what still counts of an object that cannot be decoded; None if nothing does.

        That is a claim with its devices, and a quota that allows nothing.
        """
        if resource == RESOURCE_QUOTAS:
            return unreadable_quota(obj, problem)
        if resource != RESOURCE_CLAIMS:
            return None
        try:
            return held_record_from(obj, problem)
        except Exception:  # noqa: BLE001 - as above; the last known version of the claim goes on counting
            return None


def version_of(metadata: Object) -> int:
    """Return the resource version in an object's metadata; 0 if it has none."""
    return number_of(metadata.get("resourceVersion", ""))


def number_of(version: str) -> int:
    """Return a resource version as a number; 0 if it is none."""
    return int(version) if version.isdecimal() else 0
