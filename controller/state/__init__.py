"""What the controller knows of the cluster: the newest known version of each object, indexed. Pure.

    State            what decisions are made from; ``apply`` feeds it with what the reflectors report
    Decoder          what reflectors report, as values; may run in their threads
    SharedPods, SharedClaims   make pods and claims share what is equal
    UnreadableObjects   the objects that cannot be decoded
    ObjectVersions   the known version of every object; an older one never replaces a newer one
    Pods             pods by key and by the claims they refer to
    Claims           claims by key
    is_made_for      whether a claim was created for a pod or PodGroup; ``State.consumer`` says who uses it
    Promise          what was decided to give to a claim and is not known to be written
    DeviceClasses    device classes, and whose devices requests for them can get
    Gangs            which pods belong to which gang, and on what each gang starts
    scheduling       namespaces and volumes, which are read only to choose nodes
    SliceNodes       the node of each slice; whether some devices can be reached from several nodes
    NodeRevisions    how often others than this controller have changed each node
    DeviceKinds      the kind of each published device, for a metric
    epoch_seconds    an RFC 3339 time stamp as a number; ``State.at`` has it as decisions need it
    Changes          what must be looked at again after a change

Nodes with the pods that count on them are ``controller.placement.Nodes``; devices are ``controller.allocation.Fleet``.
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
from controller.state.times import epoch_seconds
from controller.state.unreadable import UnreadableObject

__all__ = [
    "DEVICE_TAINT_RULES_BETA",
    "GANG_RESOURCES",
    "GROUP_SOURCES",
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
