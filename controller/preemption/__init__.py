"""Making room: which pods have to go so that a pod or gang of higher priority has a place, or why none can. Pure.

``make_room`` is the entry: a pod or gang that nothing takes, and everybody who has a place (``Occupants``) in; the next
pod to evict out, or that nobody is evicted. Nothing is evicted here.

evictions       whom to evict next for a pod or gang that has no place
occupants       keeps everybody who has a place up to date, from the state
decision        decides whom to evict, and where the pods get their places then
victim_search   the least victims on one node for a pod, or anywhere for a gang
node_classes    nodes that are alike for a pod, also when some of their pods go
candidates      which pods may go, who has to go with whom, and what that costs
least_set       the least of all sets that are sufficient
| occupancy     everybody who has a place, by pod, node and claim
| render        who would be evicted, or why nobody, in words
values          victims and refusals as values
"""

from controller.preemption.decision import GANG_TRIALS, TRIALS, preempt, prepare
from controller.preemption.evictions import (
    NobodyToEvict,
    make_room,
    preemption_for,
    wait_for_ends,
    waiting_pod,
)
from controller.preemption.occupancy import GangMember, Holder, Occupancy, RunningGang
from controller.preemption.occupants import Occupants, VictimLimits, occupancy_of, overdue_at
from controller.preemption.render import render
from controller.preemption.values import KeptPods, NoPreemption, Preemption

__all__ = [
    "GANG_TRIALS",
    "TRIALS",
    "GangMember",
    "Holder",
    "KeptPods",
    "NoPreemption",
    "NobodyToEvict",
    "Occupancy",
    "Occupants",
    "Preemption",
    "RunningGang",
    "VictimLimits",
    "make_room",
    "occupancy_of",
    "overdue_at",
    "preempt",
    "preemption_for",
    "prepare",
    "render",
    "wait_for_ends",
    "waiting_pod",
]
