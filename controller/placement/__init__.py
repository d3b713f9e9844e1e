"""Choosing a node: what a pod needs, what a node has, whether they fit, and in which order nodes are tried. Pure."""

from controller.placement.needs import HostPort, Needs, NodeToleration, needs_of, requests_of
from controller.placement.nodes import NodeFacts, Nodes, NodeTaint, NodeView, facts_of
from controller.placement.order import in_order
from controller.placement.predicates import fits, selects, tolerates

__all__ = [
    "HostPort",
    "Needs",
    "NodeFacts",
    "NodeTaint",
    "NodeToleration",
    "NodeView",
    "Nodes",
    "facts_of",
    "fits",
    "in_order",
    "needs_of",
    "requests_of",
    "selects",
    "tolerates",
]
