"""Choosing nodes: what pods need, what nodes have, and a plan that places a group of pods, or the reason why not. Pure.

``plan`` is the entry. It asks ``controller.allocation`` which nodes may fit and which devices a pod would get there,
and ``PodCheck`` whether the pod could run there otherwise.

planner         the node of each pod of a group, and its devices there
| room          how many pods of a kind a node takes, but for devices
podcheck        whether a pod can run on nodes, asked node by node
| preferences   which of equal nodes a pod prefers
podaffinity     required affinity and anti-affinity between pods
| preemption    where kube-scheduler would evict pods
| spread        topology spread constraints
| volumes       where a pod's volumes are, or can be
predicates      what the node itself says about a pod
nodes           the nodes, with the pods that count on each
podindex        pods on nodes, by what terms of other pods select
needs           what a pod asks of nodes
| storage       volumes, claims for them, storage classes and limits of nodes
podterms        what a pod says about other pods, and what these see of a pod
"""

from controller.placement.needs import HostPort, Needs, NodeToleration, needs_of, requests_of
from controller.placement.nodes import NodeFacts, Nodes, NodeTaint, NodeView, facts_of
from controller.placement.planner import Placed, Placement, Plan, PodDemand, Refusal, Trial, place, plan
from controller.placement.podcheck import PodCheck
from controller.placement.podterms import LabelSelector, PodLabels, label_selector_from
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
    "LabelSelector",
    "Needs",
    "NodeFacts",
    "NodeTaint",
    "NodeToleration",
    "NodeView",
    "Nodes",
    "Placed",
    "Placement",
    "Plan",
    "PodCheck",
    "PodDemand",
    "PodLabels",
    "PodRoom",
    "Refusal",
    "Room",
    "Storage",
    "StorageClass",
    "Trial",
    "Volume",
    "VolumeClaim",
    "VolumeLimits",
    "facts_of",
    "fits",
    "label_selector_from",
    "needs_of",
    "place",
    "plan",
    "requests_of",
    "storage_class_from",
    "tolerates",
    "volume_claim_from",
    "volume_facts",
    "volume_from",
    "volume_limits_from",
]
