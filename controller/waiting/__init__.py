"""Which pods wait, in which order they are served, and what they mean for each other's nodes. Pure.

held              nodes that are held back for pods and gangs that have waited long
| limits          how long, how often and how many nodes may be held back
| parked          the pods that wait, in groups, and which of them a change can help
| retried_nodes   nodes where pods are tried again that kube-scheduler refused elsewhere
| shares          which namespaces have had their turn of deciding
order             the order: by priority, then age
"""

from controller.waiting.held import HeldDomain, HeldDomains, HeldNode, HeldNodes
from controller.waiting.limits import HoldLimits, Pauses
from controller.waiting.order import Rank, first_of_its_priority, rank_of, rank_of_gang
from controller.waiting.parked import Help, ParkedPods
from controller.waiting.retried_nodes import NodesBeingRetried
from controller.waiting.shares import Shares

__all__ = [
    "HeldDomain",
    "HeldDomains",
    "HeldNode",
    "HeldNodes",
    "Help",
    "HoldLimits",
    "NodesBeingRetried",
    "ParkedPods",
    "Pauses",
    "Rank",
    "Shares",
    "first_of_its_priority",
    "rank_of",
    "rank_of_gang",
]
