"""The kinds with few rules: Nodes, Namespaces, Events, Leases, Jobs, ResourceQuotas, and those of volumes."""

from collections.abc import Iterable

from driver.errors import Fault
from driver.kube.api import (
    CSI_NODES,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
    Resource,
)
from driver.limits import MAX_EVENT_MESSAGE
from driver.quantity import NANO, Quantity
from memoryapi.kind_rules import COMMON_FIELDS, KindRules, Write, at, selectable


def _default_namespace(write: Write) -> None:
    if write.old is None:
        write.new["spec"] = {"finalizers": ["kubernetes"]}
        write.new["status"] = {"phase": "Active"}
        labels = write.new["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = write.new["metadata"]["name"]


def _event_faults(write: Write) -> Iterable[Fault]:
    subject = at(write.new, "involvedObject.namespace") or "default"
    if subject != write.new["metadata"].get("namespace"):
        yield Fault("involvedObject.namespace", f"Invalid value: {subject!r}: does not match event.namespace")
    if write.new.get("eventTime"):
        for name in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not write.new.get(name):
                yield Fault(name, "Required value")
        if len(write.new.get("message", "")) > MAX_EVENT_MESSAGE:
            yield Fault("message", f"Invalid value: can have at most {MAX_EVENT_MESSAGE} characters")


def _lease_faults(write: Write) -> Iterable[Fault]:
    spec = write.new.get("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield Fault("spec.leaseDurationSeconds", "Invalid value: must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield Fault("spec.leaseTransitions", "Invalid value: must be greater than or equal to 0")


def _quota_faults(write: Write) -> Iterable[Fault]:
    for part in ("spec", "status"):
        for name, value in (at(write.new, f"{part}.hard") or {}).items():
            amount, path = Quantity.parse(str(value)), f"{part}.hard[{name}]"
            if amount.nanos < 0:
                yield Fault(path, f"Invalid value: {value!r}: must be greater than or equal to 0")
            elif "/" in name and amount.nanos % NANO:
                yield Fault(path, f"Invalid value: {value!r}: must be an integer")


def _default_node(write: Write) -> None:
    write.new.setdefault("spec", {})
    write.new.setdefault("status", {})


def _default_job(write: Write) -> None:
    spec = write.new.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (("parallelism", 1), ("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
        spec.setdefault(name, value)


NODE_RULES = KindRules(
    NODES,
    fields=selectable("spec.unschedulable"),
    has_status=True,
    keeps_status_on_create=True,
    default=_default_node,
)
NAMESPACE_RULES = KindRules(
    NAMESPACES, fields=selectable("status.phase"), has_status=True, name_is_label=True, default=_default_namespace
)
EVENT_RULES = KindRules(
    EVENTS,
    fields={
        **COMMON_FIELDS,
        **{
            f"involvedObject.{name}": ("involvedObject", name)
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    },
    create_on_update=True,
    faults=_event_faults,
)
LEASE_RULES = KindRules(LEASES, unconditional_update=False, create_on_update=True, faults=_lease_faults)
JOB_RULES = KindRules(
    JOBS, fields=selectable("status.successful"), has_status=True, counts_generation=True, default=_default_job
)
QUOTA_RULES = KindRules(RESOURCE_QUOTAS, has_status=True, faults=_quota_faults)
VOLUME_RULES = (
    KindRules(PERSISTENT_VOLUMES, has_status=True),
    KindRules(PERSISTENT_VOLUME_CLAIMS, has_status=True),
    KindRules(STORAGE_CLASSES),
    KindRules(CSI_NODES),
)


def custom_rules(resource: Resource) -> KindRules:
    """The rules of a custom resource with a status of its own."""
    return KindRules(resource, has_status=True, counts_generation=True)
