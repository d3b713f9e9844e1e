"""The pods that wait: in which order they are served, and which nodes are reserved for whom. Pure.

held    holds nodes back for pods and gangs that have waited long, and limits that
order   the order: by priority, then age; and the pods that wait in it, in groups that a change can help
"""

from controller.waiting.held import HeldNodes, Hold, HoldLimits, Owner, Pauses
from controller.waiting.order import Help, ParkedPods, Rank, first_of_its_priority, rank_of, rank_of_gang

__all__ = [
    "HeldNodes",
    "Help",
    "Hold",
    "HoldLimits",
    "Owner",
    "ParkedPods",
    "Pauses",
    "Rank",
    "first_of_its_priority",
    "rank_of",
    "rank_of_gang",
]
