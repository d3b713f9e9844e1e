"""Choosing a node: what a pod needs, what a node has, whether they fit, and in which order nodes are tried. Pure."""

from controller.placement.needs import HostPort, Needs, NodeToleration, needs_of, requests_of
from controller.placement.nodes import NodeFacts, NodeTaint, NodeView, facts_of
from controller.placement.order import in_order
from controller.placement.predicates import fits, tolerates

__all__ = [
    "HostPort",
    "Needs",
    "NodeFacts",
    "NodeTaint",
    "NodeToleration",
    "NodeView",
    "facts_of",
    "fits",
    "in_order",
    "needs_of",
    "requests_of",
    "tolerates",
]
