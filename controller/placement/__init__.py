"""Choosing nodes: what pods need, what nodes have, and a plan that places a group of pods, or the reason why not. Pure.

``plan`` is the entry. It asks ``controller.allocation`` which nodes may fit and which devices a pod would get there,
and the predicates whether the pod could run there otherwise.
"""

from controller.placement.needs import HostPort, Needs, NodeToleration, needs_of, requests_of
from controller.placement.nodes import NodeFacts, Nodes, NodeTaint, NodeView, facts_of
from controller.placement.planner import Placed, Placement, Plan, PodDemand, Refusal, Trial, place, plan
from controller.placement.predicates import fits, tolerates

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
    "Plan",
    "PodDemand",
    "Refusal",
    "Trial",
    "facts_of",
    "fits",
    "needs_of",
    "place",
    "plan",
    "requests_of",
    "tolerates",
]
