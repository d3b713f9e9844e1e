"""Pods that are evicted for others: who has to go so that one of higher priority has a place, and what is kept for it.

``make_room`` is the entry: a pod or gang that nothing takes, and everybody who has a place (``Occupants``) in; the next
pod to evict out, or that nobody is evicted.

Who has to go
    Each pod with devices is a *candidate*, unless something keeps it: its priority, a budget, a claim that its end does
    not free. Whoever cannot stay without it goes, too: the other users of its claims, and of its gang as many as the
    gang is nothing without. So a candidate is a set of pods, and so is what goes for several candidates together.

    Sets have a *price*, which is compared part by part: the highest priority, the cards that are lost, the number of
    pods, then the ages. The set with the least price goes of those that *suffice*: without them, a node takes the pod,
    or a domain takes the gang. Two facts make it possible to find that set without trying all of them. Whoever goes
    besides makes nothing impossible: a set that does not suffice has no part that does. And whoever goes besides makes
    nothing cheaper: so sets are tried from the cheapest on, and the first that suffices is the least (``least_set``).

    An example: a pod of priority 10 wants two cards, and each node has two.

    | node | pods, each with its priority and cards                 | the least that suffices there | its price        |
    |------|--------------------------------------------------------|-------------------------------|------------------|
    | n1   | a (5, one card), b (0, one card)                       | a, b                          | 5, 2 cards, 2    |
    | n2   | c (0, one card), d (0, one card)                       | c, d                          | 0, 2 cards, 2    |
    | n3   | e (0, two cards), of a gang that needs both e and f    | e, f                          | 0, 4 cards, 2    |
    | n4   | f (0, two cards), of that gang                         | e, f                          | 0, 4 cards, 2    |
    | n5   | g (10, two cards)                                      | nobody: g is no lower         |                  |

    One pod of n1 is cheaper than all others, but one card is not enough, and a has a priority above those of n2. On n3,
    one pod would do, and takes another one with it. So c and d go, the younger one first
    (``tests/unit/controller/preemption/test_preempt.py`` has this example).

What is kept
    Victims take their time to end. Meanwhile the devices that they hold are kept for the pod that they go for: they
    count as used, for everybody but that pod, its gang and pods of higher priority
    (``controller.state.kept_places``). What is kept is recorded on the pod, so that a restart finds it again. A plan is
    not: it is made anew before each eviction (docs/decisions/preemption.md).

A single pod and a gang
    A pod is a gang of one in everything but the search. A node says in microseconds whether it takes a pod, so the
    least victims of every node are found, and proved to be the least. A gang has to be asked about in a domain, which
    takes as long as a decision about it, so there are few trials, among the cheapest candidates.

worker          has pods evicted for others, and keeps what is freed
evictions       whom to evict next for a pod or gang that has no place
victim_search   the least victims on one node for a pod, where many nodes are alike, or anywhere for a gang
candidates      which pods may go, who has to go with whom, and what that costs
least_set       the least of all sets that are sufficient
| occupancy     everybody who has a place, by pod, node and claim, found in the state
values          victims and refusals, as values and in words
"""

from controller.preemption.evictions import make_room, preempt, preemption_for, wait_for_ends, waiting_pod
from controller.preemption.occupancy import Holder, Occupancy, Occupants, VictimLimits, occupancy_of, overdue_at
from controller.preemption.values import Preemption, Unevicted, render
from controller.preemption.victim_search import prepare

__all__ = [
    "Holder",
    "Occupancy",
    "Occupants",
    "Preemption",
    "Unevicted",
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
