"""The state of the cluster as the controller knows it: the newest known version of each object, indexed. Pure.

``State`` is what decisions are made from; ``apply`` feeds it with what the reflectors report. Nodes with the pods that
count on them are ``controller.placement.Nodes``; devices are ``controller.allocation.Fleet``.

state          all of it, kept up to date change by change
decoding       what reflectors report, as values; may run in their threads
| workloads    what happens to the indexes when an object changes that says something about gangs
handlers       what happens to the indexes when an object of another kind changes
consumers      for whom a claim is reserved: a pod, or its PodGroup
| gangs        which pods belong to which gang, and on what each starts
| pods         pods by key and by the claims that they refer to
| scheduling   namespaces and volumes, which are read only to choose nodes
| sharing      keeps equal parts of objects once
| templates    what claims will ask for that do not exist yet
| versions     the known version of every object; an older one never replaces a newer one
openings       since when pods could be served that gates of others had held
podview        a pod as the controller sees it
| claims       claims by key
| classes      device classes, and whose devices requests for them can get
| slices       for which nodes a change of a slice or of an allocation matters
| kinds        the kind of each published device, for a metric
| changes      what must be looked at again after a change
| revisions    how often others than this controller have changed each node
| times        time stamps of objects
unreadable     the objects that cannot be decoded
"""

from controller.state.changes import Changes
from controller.state.claims import ClaimRecord, Claims, Promise
from controller.state.classes import ClassRecord, DeviceClasses
from controller.state.consumers import is_made_for
from controller.state.decoding import DEVICE_TAINT_RULES_BETA, GROUP_SOURCES, Decoded, Deleted, StateDelta
from controller.state.gangs import Gangs
from controller.state.pods import Pods
from controller.state.podview import ClaimReference, Condition, PodView, pod_from
from controller.state.revisions import NodeRevisions, Revision
from controller.state.state import GANG_RESOURCES, OPTIONAL_RESOURCES, VOLUME_RESOURCES, State
from controller.state.times import NEVER, epoch_seconds
from controller.state.unreadable import UnreadableObject

__all__ = [
    "DEVICE_TAINT_RULES_BETA",
    "GANG_RESOURCES",
    "GROUP_SOURCES",
    "NEVER",
    "OPTIONAL_RESOURCES",
    "VOLUME_RESOURCES",
    "Changes",
    "ClaimRecord",
    "ClaimReference",
    "Claims",
    "ClassRecord",
    "Condition",
    "Decoded",
    "Deleted",
    "DeviceClasses",
    "Gangs",
    "NodeRevisions",
    "PodView",
    "Pods",
    "Promise",
    "Revision",
    "State",
    "StateDelta",
    "UnreadableObject",
    "epoch_seconds",
    "is_made_for",
    "pod_from",
]
