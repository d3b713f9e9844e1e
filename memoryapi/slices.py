"""ResourceSlices, DeviceClasses and DeviceTaintRules (resource.k8s.io/v1)."""

from collections.abc import Iterable

from driver.errors import Fault
from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_SLICES, Object
from memoryapi import rules
from memoryapi.device_rules import slice_faults, taint_faults
from memoryapi.kind_rules import KindRules, Write, immutable, selectable

_GATED_ATTRIBUTE_FIELDS = ("ints", "bools", "strings", "versions")


def _default_slice(write: Write) -> None:
    """Drop fields whose feature gates are off by default, silently as the real server does, and set ``timeAdded``."""
    spec = write.new["spec"]
    for name in ("partitionTypeAttribute", "skipNodeOperations"):
        spec.pop(name, None)
    for device in spec.get("devices", ()):
        _default_device(device, write.now)


def _default_device(device: Object, now: str) -> None:
    device.pop("nodeAllocatableResources", None)
    for value in device.get("attributes", {}).values():
        for name in _GATED_ATTRIBUTE_FIELDS:
            value.pop(name, None)
    for consumption in device.get("consumesCounters", ()):
        consumption.pop("compatibilityGroups", None)
    for taint in device.get("taints", ()):
        taint.setdefault("timeAdded", now)


def _slice_faults(write: Write) -> Iterable[Fault]:
    for path in ("spec.driver", "spec.pool.name", "spec.nodeName"):
        yield from immutable(write, path)
    if write.old is None or write.new["spec"] != write.old["spec"]:
        yield from slice_faults(write.new["spec"], write.old["spec"] if write.old else {}, write.kubernetes)


def _class_faults(write: Write) -> Iterable[Fault]:
    spec = write.new.get("spec", {})
    yield from rules.selectors("spec.selectors", spec.get("selectors", []))
    configs = spec.get("config", [])
    yield from rules.at_most("spec.config", configs, 32)
    for i, config in enumerate(configs):
        yield from rules.opaque(f"spec.config[{i}]", config)


def _default_rule(write: Write) -> None:
    write.new["spec"].get("taint", {}).setdefault("timeAdded", write.now)


SLICE_RULES = KindRules(
    RESOURCE_SLICES,
    fields=selectable("spec.nodeName", "spec.driver", "spec.pool.name"),
    counts_generation=True,
    default=_default_slice,
    faults=_slice_faults,
)
DEVICE_CLASS_RULES = KindRules(
    DEVICE_CLASSES,
    counts_generation=True,
    default=lambda write: write.new.setdefault("spec", {}) and None,
    faults=_class_faults,
)
DEVICE_TAINT_RULE_RULES = KindRules(
    DEVICE_TAINT_RULES,
    has_status=True,
    status_resets_metadata=True,
    counts_generation=True,
    unconditional_update=False,
    default=_default_rule,
    faults=lambda write: taint_faults("spec.taint", write.new["spec"].get("taint", {})),
)
