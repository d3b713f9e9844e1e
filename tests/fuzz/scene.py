"""The objects of ``scene.yaml``: one of each kind that a controller reads, with all fields that it looks at."""

from pathlib import Path
from typing import Final

import yaml

from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    GROVE_POD_GANGS,
    JOB_SETS,
    JOBS,
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    VOLCANO_POD_GROUPS,
    Object,
    Resource,
)
from tests.fuzz import hostile

CUSTOM: Final = (
    JOB_SETS,
    VOLCANO_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    POD_GROUPS[0],
    COMPOSITE_POD_GROUPS[0],
    GROVE_POD_GANGS,
    KUEUE_WORKLOADS,
    KUEUE_ADMISSION_CHECKS,
)
"""The kinds that not every API server serves."""
_BUILT_IN: Final = (
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    PODS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    NAMESPACES,
    JOBS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
_KINDS: Final = {
    **{kind.plural: kind for kind in _BUILT_IN},
    **{f"{kind.plural}.{kind.group}": kind for kind in CUSTOM},
}
_UID: Final = "11111111-0000-4000-8000-000000000001"
_IDENTITY: Final = {"namespace": "other", "name": "odd", "uid": _UID, "resourceVersion": "7"}


def _scene() -> tuple[tuple[Resource, Object], ...]:
    objects = yaml.safe_load(Path(__file__).with_name("scene.yaml").read_text())
    return tuple(
        (_KINDS[raw.pop("kind")], {**raw, "metadata": {**_IDENTITY, **raw.get("metadata", {})}}) for raw in objects
    )


SCENE: Final = _scene()


def kept(path: hostile.Path) -> bool:
    """What says which object it is, and which card it holds, stays as it is."""
    if path in (("metadata",), ("status",)):
        return True
    return path[:2] == ("status", "allocation") or (path[0] == "metadata" and path[1] in _IDENTITY)
