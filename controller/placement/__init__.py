"""Choosing nodes: needs of pods, facts of nodes, and a place for a pod or a refusal. Pure.

``find_place`` is the entry. ``controller.allocation`` tells it the nodes that may fit and the devices of a pod there,
and ``PodCheck`` whether the pod could run there otherwise.

planner         a node and devices for a pod
| room          number of like pods that a node takes, apart from devices
podcheck        all predicates for one pod, node by node
| preferences   scores of equal nodes by a pod's preferences
podaffinity     required affinity and anti-affinity between pods
| preemption    evictions by which kube-scheduler makes room
| spread        topology spread constraints
| volumes       check of nodes for the volumes of a pod
predicates      predicates of one pod and one node
nodes           nodes, with the pods that count on each
podindex        pods on nodes, indexed for terms of other pods
| nodefacts     the fields of a Node object that predicates read
needs           needs of a pod: its requirements on a node
| storage       volumes, claims for volumes, storage classes and limits of nodes
podterms        terms about other pods, and the fields that they select by
"""

from controller.placement.needs import HostPort, Needs, NodeToleration, needs_of, requests_of
from controller.placement.nodefacts import NodeFacts, NodeTaint, facts_of
from controller.placement.nodes import Nodes, NodeView, PodChange
from controller.placement.planner import Placed, Placement, PodDemand, Refusal, find_place, place, place_on
from controller.placement.podcheck import PodCheck
from controller.placement.podterms import PodLabels
from controller.placement.predicates import fits, tolerates
from controller.placement.room import PodRoom, Room
from controller.placement.storage import (
    Storage,
    StorageClass,
    Volume,
    VolumeClaim,
    VolumeLimits,
    storage_class_from,
    volume_claim_from,
    volume_from,
    volume_limits_from,
)
from controller.placement.volumes import volume_facts

__all__ = [
    "HostPort",
    "Needs",
    "NodeFacts",
    "NodeTaint",
    "NodeToleration",
    "NodeView",
    "Nodes",
    "Placed",
    "Placement",
    "PodChange",
    "PodCheck",
    "PodDemand",
    "PodLabels",
    "PodRoom",
    "Refusal",
    "Room",
    "Storage",
    "StorageClass",
    "Volume",
    "VolumeClaim",
    "VolumeLimits",
    "facts_of",
    "find_place",
    "fits",
    "needs_of",
    "place",
    "place_on",
    "requests_of",
    "storage_class_from",
    "tolerates",
    "volume_claim_from",
    "volume_facts",
    "volume_from",
    "volume_limits_from",
]
