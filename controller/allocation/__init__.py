"""Allocates devices of a node to a pod's claims, from all slices, classes, claims and taint rules. Pure.

Terms
    A **pool** is the newest generation of one pool of ResourceSlices. A set of its devices is an integer with a bit for
    each device, a **bitset**, so that "matches, is free, is tolerated" is three ``&``. Its **layout** says which
    counters each device draws on, and so which devices the free counters allow, group by group (usually card by card).
    A **column** has one attribute, or the capacities, of all devices of a pool. Equal pools share layouts and columns.
    A **compiled request** is everything that follows from the claims of a pod and their classes alone; one object for
    all pods with equal requests. A set of nodes is an integer, too.

How a question is answered
    1. ``requests``: the claims are compiled, or their faults are returned.
    2. ``devices``: bitsets of nodes rule out those with too few available or too few matching devices, and those that
       did not fit this request before and of which nothing was freed since.
    3. ``nodefit.fit``: the node's devices that match, are available, tolerated and large enough are found with
       bitsets; counting them per request and per attribute value often proves that the node does not fit. Then the
       first devices that fit are picked.
    4. ``search``: if a pick would have to be undone, or a request has a preference, devices are looked at one by one.
       What cannot succeed is found by counting (values, flows, counters and capacity); interchangeable devices are
       tried once. The first solution in the order of kube-scheduler's allocator is found, or a budget of steps ends it.
    5. ``preferences`` (``PlacementConfig``) change the order in which devices are tried, nothing else.
    6. ``reasons``: if the node does not fit, every device is counted by what excludes it first.

Why it is fast
    A fleet has few different devices. A selector is evaluated once for all pools that are alike in what it reads. The
    layout answers for all cards in the same state. Nodes with the same fingerprint share one search. State is updated
    by events and never rebuilt. What was learnt about a node for a request is kept until something there changes.

What it may cost
    The author of a claim decides how expensive its selectors are. ``costs`` counts their steps before anything else is
    asked, and refuses the claim if they are too many. The work is spread over turns (``selectors``).

fleet           allocates devices of the cluster to claims
ledger          all devices of the cluster and what is in use of them, kept up to date by events
| costs         counts the steps of claims' selectors, and refuses claims with too many
| nodefit       fits one compiled request to one node
reasons         the reasons why a node does not take a pod, as values
| search        the search where the first fit is not a solution
devices         indexes of devices and their use
| requests      the requests of claims, compiled
preferences     what a request prefers among sufficient devices and nodes
| rules         the rules for devices that may be picked: capacity, constraints, values of a pod, taints
| selectors     the selectors of a class and a request, compiled once, and the limits on their work
"""

from controller.allocation.devices.pools import NodeSlot, PublishedPool
from controller.allocation.devices.usage import UseChange
from controller.allocation.fleet import Fleet
from controller.allocation.ledger import CARD, Card, DeviceLedger
from controller.allocation.nodefit.closer import ChosenCards, Obstructed
from controller.allocation.nodefit.counts import NodeDeviceCounts, NodeValues
from controller.allocation.nodefit.likeness import DevicePosition
from controller.allocation.nodefit.score import NodeScore
from controller.allocation.reasons import Exclusion, NodeReasons, Shortage
from controller.allocation.requests import CompiledRequest
from controller.allocation.rules import PodValues, Values, small_amounts
from controller.allocation.selectors import Drivers, OutOfSteps, TurnEnded

__all__ = [
    "CARD",
    "Card",
    "ChosenCards",
    "CompiledRequest",
    "DeviceLedger",
    "DevicePosition",
    "Drivers",
    "Exclusion",
    "Fleet",
    "NodeDeviceCounts",
    "NodeReasons",
    "NodeScore",
    "NodeSlot",
    "NodeValues",
    "Obstructed",
    "OutOfSteps",
    "PodValues",
    "PublishedPool",
    "Shortage",
    "TurnEnded",
    "UseChange",
    "Values",
    "small_amounts",
]
