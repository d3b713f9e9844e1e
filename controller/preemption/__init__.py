"""Making room: which pods have to go so that a pod or gang of higher priority has a place, or why none can. Pure.

``preempt`` is the entry: a pod or gang, whoever has a place, and a snapshot in; placements and victims out, or a
refusal. Nothing is evicted here.

decision        decides whom to evict for a pod that no node takes, or a gang that no domain takes
for_gang        the least victims anywhere for a gang
| for_pod       the least victims on one node for one pod
node_classes    nodes that are alike for a pod, also when some of their pods go
victim_search   the least victims among some pods
least_set       the least of all sets that are sufficient
residents       the pods of each node with their prices and places, found out once
price           the order in which sets of victims are compared
| render        who would be evicted, or why nobody, in words
bonds           which pods may be victims, and who goes with whom
occupancy       everybody who has a place, by pod, node and claim
values          holders, gangs, victims and refusals as values
"""

from controller.preemption.decision import GANG_TRIALS, TRIALS, preempt, prepare
from controller.preemption.occupancy import Occupancy
from controller.preemption.render import render
from controller.preemption.values import (
    GangMember,
    Holder,
    KeptPods,
    NoPreemption,
    Preemption,
    RunningGang,
    Victim,
)

__all__ = [
    "GANG_TRIALS",
    "TRIALS",
    "GangMember",
    "Holder",
    "KeptPods",
    "NoPreemption",
    "Occupancy",
    "Preemption",
    "RunningGang",
    "Victim",
    "preempt",
    "prepare",
    "render",
]
