"""Which pods wait, in which order they are served, and what they mean for each other's nodes. Pure.

Rank, rank_of   the order: by priority, then age; rank_of_gang the same for a gang
ParkedPods      the pods that wait, in groups, and which of them a change can help
HoldLimits      how long and how much may be held back; Pauses after a hold that ran out
HeldNodes       nodes that are held back for pods that have waited long; HeldDomains the same for gangs
Shares          which namespaces have had their turn of deciding
OpenQuestions   nodes where kube-scheduler is being asked about pods that it has refused before
"""

from controller.waiting.held import HeldDomain, HeldDomains, HeldNode, HeldNodes
from controller.waiting.limits import HoldLimits, Pauses
from controller.waiting.order import Rank, rank_of, rank_of_gang
from controller.waiting.parked import Help, ParkedPods
from controller.waiting.questions import OpenQuestions
from controller.waiting.shares import Shares

__all__ = [
    "HeldDomain",
    "HeldDomains",
    "HeldNode",
    "HeldNodes",
    "Help",
    "HoldLimits",
    "OpenQuestions",
    "ParkedPods",
    "Pauses",
    "Rank",
    "Shares",
    "rank_of",
    "rank_of_gang",
]
