"""ResourceSlices, DeviceClasses and DeviceTaintRules (resource.k8s.io/v1)."""

from collections.abc import Iterable

from driver.errors import Fault
from driver.kube.api import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_SLICES
from rehearsal.api.kinds import Kind, Write, immutable, selectable


def _default(write: Write) -> None:
    for device in write.new["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", write.now)


def _faults(write: Write) -> Iterable[Fault]:
    for path in ("spec.driver", "spec.pool.name", "spec.nodeName"):
        yield from immutable(write, path)


SLICES_KIND = Kind(
    RESOURCE_SLICES,
    fields=selectable("spec.nodeName", "spec.driver", "spec.pool.name"),
    counts_generation=True,
    default=_default,
    faults=_faults,
)
CLASSES_KIND = Kind(DEVICE_CLASSES, counts_generation=True)
TAINT_RULES_KIND = Kind(
    DEVICE_TAINT_RULES,
    has_status=True,
    status_resets_metadata=True,
    counts_generation=True,
    unconditional_update=False,
    default=lambda write: write.new["spec"].get("taint", {}).setdefault("timeAdded", write.now),
)
