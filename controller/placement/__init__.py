"""Choosing nodes: needs of pods, facts of nodes, and a place for a pod or a refusal. Pure.

``find_place`` is the entry. ``controller.allocation`` tells it the nodes that may fit and the devices of a pod there,
and ``PodCheck`` whether the pod could run there otherwise.

planner         a node and devices for a pod
podcheck        all predicates for one pod, node by node, for how many like it, and with which evictions
| preferences   scores of equal nodes by a pod's preferences
predicates      predicates of a pod and a node: what the node does not allow, and what pods on other nodes forbid
| volumes       check of nodes for the volumes of a pod
nodes           nodes, with the pods that count on each
podindex        pods on nodes, indexed for terms of other pods
| storage       volumes, claims for volumes, storage classes and limits of nodes
needs           needs of a pod: its requirements on a node, and its terms about other pods
"""

from controller.placement.needs import Needs, PodLabels, needs_of
from controller.placement.nodes import (
    BY_CLASS,
    ExtendedResources,
    NodeFacts,
    Nodes,
    NodeTaint,
    NodeView,
    PodChange,
    facts_of,
)
from controller.placement.planner import Placed, Placement, PodDemand, find_place, place, place_on
from controller.placement.podcheck import PodCapacity, PodCheck
from controller.placement.predicates import fits
from controller.placement.storage import (
    VolumeClaim,
    storage_class_from,
    volume_claim_from,
    volume_from,
    volume_limits_from,
)
from controller.placement.volumes import volume_facts

__all__ = [
    "BY_CLASS",
    "ExtendedResources",
    "Needs",
    "NodeFacts",
    "NodeTaint",
    "NodeView",
    "Nodes",
    "Placed",
    "Placement",
    "PodCapacity",
    "PodChange",
    "PodCheck",
    "PodDemand",
    "PodLabels",
    "VolumeClaim",
    "facts_of",
    "find_place",
    "fits",
    "needs_of",
    "place",
    "place_on",
    "storage_class_from",
    "volume_claim_from",
    "volume_facts",
    "volume_from",
    "volume_limits_from",
]
