"""The pods that wait: in which order they are served, and which nodes are reserved for whom. Pure.

held      holds nodes back for pods and gangs that have waited long, and limits that
| parked  the pods that wait, in groups, and those that a change can help
order     the order: by priority, then age
"""

from controller.waiting.held import HeldNodes, Hold, HoldLimits, Owner, Pauses
from controller.waiting.order import Rank, first_of_its_priority, rank_of, rank_of_gang
from controller.waiting.parked import Help, ParkedPods

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
