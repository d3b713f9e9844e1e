"""The state of the cluster as the controller knows it: the newest known version of each object, indexed. Pure.

Decisions are made from ``State``; ``apply`` feeds it with the reports of reflectors. Nodes with the pods that count on
them are ``controller.placement.Nodes``; devices are ``controller.allocation.Fleet``.

state          the whole state, kept up to date change by change
decoding       decodes reports of reflectors to values; may run in their threads
| workloads    updates the indexes of gangs when an object changes that says something about them
| devicehandlers  updates the indexes when slices or taint rules change
handlers       updates the indexes when an object of another kind changes
consumers      finds the consumer of a claim: a pod, or its PodGroup
| gangs        groups pods into gangs, and finds the terms on which each starts
| knownnodes   nodes, and the annotations that keep autoscalers from them
| rooms        room that is kept for pods which preempt others
| pods         pods by key and by the claims that they refer to
| scheduling   namespaces and volumes, which are read only to choose nodes
| sharing      keeps equal parts of objects once
| queued       Workloads of Kueue, and who asks whether they fit
| budgets      PodDisruptionBudgets: what they select, and allow
| templates    the claims of pods that do not exist yet
| ondemand     templates whose names say what they ask for: who names them, and which were made for that
| versions     the known version of every object; an older one never replaces a newer one
openings       finds when pods could be served that gates of others had held
podview        the part of a pod that decisions depend on
| claims       claims by key
| classes      device classes, and the drivers whose devices they select
| slices       finds the nodes for which a change of a slice or of an allocation matters
| kinds        the kind of each published device, for a metric
| changes      collects what has to be looked at again after a change
| revisions    counts the changes of each node by others than this controller
| settings     the part of the controller's settings that decisions depend on
| times        time stamps of objects, and on the clock of this program
unreadable     the objects that cannot be decoded
"""

from controller.state.changes import Changes, Touched
from controller.state.claims import ClaimRecord, Claims, Promise
from controller.state.classes import ClassRecord, DeviceClasses
from controller.state.consumers import is_made_for
from controller.state.decoding import DEVICE_TAINT_RULES_BETA, GROUP_SOURCES, Decoded, Deleted, StateDelta
from controller.state.gangs import Gangs
from controller.state.knownnodes import DO_NOT_DISRUPT, PROTECTED, ending_protection
from controller.state.pods import Pods
from controller.state.podview import ClaimReference, Condition, PodView, pod_from
from controller.state.queued import (
    ACTIVE,
    PAUSED,
    PENDING,
    READY,
    RETRY,
    AdmissionCheck,
    CheckState,
    PodSet,
    Queued,
    QueuedWorkload,
)
from controller.state.revisions import NodeRevisions, Revision
from controller.state.rooms import KeptRoom
from controller.state.settings import DecisionSettings
from controller.state.state import GANG_RESOURCES, OPTIONAL_RESOURCES, VOLUME_RESOURCES, State
from controller.state.templates import is_made_on_demand, template_from
from controller.state.times import NEVER, Timeline, epoch_seconds
from controller.state.unreadable import UnreadableObject

__all__ = [
    "ACTIVE",
    "DEVICE_TAINT_RULES_BETA",
    "DO_NOT_DISRUPT",
    "GANG_RESOURCES",
    "GROUP_SOURCES",
    "NEVER",
    "OPTIONAL_RESOURCES",
    "PAUSED",
    "PENDING",
    "PROTECTED",
    "READY",
    "RETRY",
    "VOLUME_RESOURCES",
    "AdmissionCheck",
    "Changes",
    "CheckState",
    "ClaimRecord",
    "ClaimReference",
    "Claims",
    "ClassRecord",
    "Condition",
    "DecisionSettings",
    "Decoded",
    "Deleted",
    "DeviceClasses",
    "Gangs",
    "KeptRoom",
    "NodeRevisions",
    "PodSet",
    "PodView",
    "Pods",
    "Promise",
    "Queued",
    "QueuedWorkload",
    "Revision",
    "State",
    "StateDelta",
    "Timeline",
    "Touched",
    "UnreadableObject",
    "ending_protection",
    "epoch_seconds",
    "is_made_for",
    "is_made_on_demand",
    "pod_from",
    "template_from",
]
