"""An object of each kind that the controller reads, with every field that it looks at."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from controller.allocation import Fleet
from controller.kueue.queued import AdmissionCheck, Queued, QueuedWorkload
from controller.membership import GROUP_SOURCES, Group, JobSet, Workload
from controller.placement import VolumeClaim
from controller.placement.storage import StorageClass, Volume, VolumeLimits
from controller.quotas import Quota
from controller.state import DEVICE_TAINT_RULES_BETA, DecisionSettings, PodView, State
from controller.state.budgets import Budget
from controller.state.claims import ClaimRecord
from controller.state.devices import ClassRecord
from controller.state.knownnodes import DecodedNode
from controller.state.templates import DecodedTemplate
from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
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
    Object,
    Resource,
)
from driver.model import Slice, TaintRule
from driver.names import Names
from tests.fuzz.scene import SCENE

VALUES: Final[Mapping[Resource, Any]] = {
    PODS: PodView,
    NODES: DecodedNode,
    RESOURCE_CLAIMS: ClaimRecord,
    RESOURCE_CLAIM_TEMPLATES: DecodedTemplate,
    RESOURCE_SLICES: Slice,
    DEVICE_CLASSES: ClassRecord,
    DEVICE_TAINT_RULES: TaintRule,
    DEVICE_TAINT_RULES_BETA: TaintRule,
    NAMESPACES: tuple[str, Mapping[str, str]],
    RESOURCE_QUOTAS: Quota,
    POD_DISRUPTION_BUDGETS: Budget,
    KUEUE_ADMISSION_CHECKS: AdmissionCheck,
    KUEUE_WORKLOADS: QueuedWorkload,
    PERSISTENT_VOLUME_CLAIMS: VolumeClaim,
    PERSISTENT_VOLUMES: Volume,
    STORAGE_CLASSES: StorageClass,
    CSI_NODES: VolumeLimits,
    JOBS: tuple[str, Workload],
    STATEFUL_SETS: tuple[str, Workload],
    JOB_SETS: JobSet,
    **dict.fromkeys(GROUP_SOURCES, Group),
}
"""The type of the value that an object of each kind is decoded to."""
OTHER_VERSIONS: Final = {DEVICE_TAINT_RULES_BETA, *POD_GROUPS[1:], *COMPOSITE_POD_GROUPS[1:]}
"""The same objects in other versions of their API, which are decoded in the same way."""
IDENTITY: Final = {"namespace": "other", "name": "odd", "uid": "11111111-0000-4000-8000-000000000001"}


def _read() -> list[tuple[Resource, Object]]:
    served = [kind for kind in VALUES if kind not in OTHER_VERSIONS]
    kinds = {name: kind for kind in served for name in (kind.plural, f"{kind.plural}.{kind.group}")}
    # Without the aliases of the file, so that each place can be changed alone.
    full = json.loads(json.dumps(yaml.safe_load(Path(__file__).with_name("full_objects.yaml").read_text())))
    return [*SCENE, *((kinds[raw.pop("kind")], raw) for raw in full)]


def _identified(resource: Resource, obj: Object) -> Object:
    metadata = {**obj.get("metadata", {}), **IDENTITY, "resourceVersion": "7"}
    if not resource.namespaced:
        del metadata["namespace"]
    return {**obj, "metadata": metadata}


OBJECTS: Final = tuple((resource, _identified(resource, obj)) for resource, obj in _read())


def following_all() -> State:
    """A state that follows every kind."""
    state = State(Fleet(), Names(), DecisionSettings(closing_node_conditions=("Closed",)))
    state.follow_budgets()
    state.follow(Queued(Names().fits_now).kinds)
    return state
