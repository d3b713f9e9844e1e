"""Decodes objects that reflectors report to values. Pure.

Decoding is apart from ``State.apply``, so that it can be done in the thread that reads: the raw objects of a list never
exist all at once, and the thread that decides does not spend its time on them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from controller.gangs import Group, Source, Tiers, group_from, job_from, job_set_from, stateful_set_from
from controller.placement import storage_class_from, volume_claim_from, volume_from, volume_limits_from
from controller.quotas import Quota, quota_from, unreadable_quota
from controller.state.budgets import budget_from
from controller.state.claims import ClaimRecord, held_record_from, record_from
from controller.state.classes import class_record_from
from controller.state.knownnodes import node_from
from controller.state.podview import pod_from
from controller.state.queued import admission_check_from, queued_from
from controller.state.scheduling import namespace_from
from controller.state.sharing import SharedClaims, SharedPods
from controller.state.templates import DecodedTemplate, is_made_on_demand, template_from
from driver.errors import Fault, InvalidInput
from driver.kube.api import (
    COSCHEDULING_POD_GROUPS,
    CSI_NODES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOB_SETS,
    JOBS,
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLCANO_POD_GROUPS,
    Object,
    Resource,
    Undecoded,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Removed, Restored, Synced, Unreadable
from driver.model import Slice
from driver.names import Names
from driver.wire import SharedSlices, taint_rule_from

DEVICE_TAINT_RULES_BETA: Final = Resource(
    "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False
)
"""The version in which Kubernetes 1.36 serves device taint rules, if at all."""
GROUP_SOURCES: Final[Mapping[Resource, Source]] = {
    **dict.fromkeys(POD_GROUPS, Source.POD_GROUP),
    VOLCANO_POD_GROUPS: Source.VOLCANO,
    COSCHEDULING_POD_GROUPS: Source.COSCHEDULING,
}
"""The kinds of objects that stand for a gang."""


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
    """Decodes objects of every kind that the state keeps. Safe in any thread."""

    def __init__(
        self, names: Names, condition_type: str, tiers: Tiers | None = None, closing_conditions: Collection[str] = ()
    ):
        pods, claims = SharedPods(), SharedClaims()
        self._decode: Mapping[Resource, Callable[[Object], Any]] = {
            PODS: lambda obj: pods.shared(pod_from(obj, condition_type, names.gang)),
            NODES: partial(node_from, names=names, closing=tuple(closing_conditions)),
            RESOURCE_CLAIMS: lambda obj: claims.shared(record_from(obj)),
            RESOURCE_CLAIM_TEMPLATES: lambda obj: DecodedTemplate(
                claims.shared(template_from(obj)), is_made_on_demand(obj, names)
            ),
            RESOURCE_SLICES: partial(_slice, SharedSlices(), names),
            DEVICE_CLASSES: class_record_from,
            DEVICE_TAINT_RULES: taint_rule_from,
            DEVICE_TAINT_RULES_BETA: taint_rule_from,
            NAMESPACES: namespace_from,
            RESOURCE_QUOTAS: lambda obj: quota_from(obj, names),
            POD_DISRUPTION_BUDGETS: budget_from,
            KUEUE_ADMISSION_CHECKS: admission_check_from,
            KUEUE_WORKLOADS: queued_from,
            PERSISTENT_VOLUME_CLAIMS: volume_claim_from,
            PERSISTENT_VOLUMES: volume_from,
            STORAGE_CLASSES: storage_class_from,
            CSI_NODES: volume_limits_from,
            JOBS: lambda obj: job_from(obj, names.gang),
            STATEFUL_SETS: stateful_set_from,
            JOB_SETS: lambda obj: job_set_from(obj, names.gang),
            **{resource: partial(_group, source, tiers or {}) for resource, source in GROUP_SOURCES.items()},
        }

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
                value = self._decode[resource](obj)
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


def _group(source: Source, tiers: Tiers, obj: Object) -> Group:
    return group_from(obj, source, tiers)


def version_of(metadata: Object) -> int:
    """Return the resource version in an object's metadata; 0 if it has none."""
    return number_of(metadata.get("resourceVersion", ""))


def number_of(version: str) -> int:
    """Return a resource version as a number; 0 if it is none."""
    return int(version) if version.isdecimal() else 0
