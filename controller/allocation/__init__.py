"""Which devices of a node a pod's claims get: a pure function of all slices, classes, claims and taint rules."""

from controller.allocation.fleet import Fleet
from controller.allocation.reasons.reasons import Exclusion, Shortage, Unsatisfiable
from controller.allocation.reasons.render import render
from controller.allocation.reasons.summary import Closest, Group, NodeReasons, Summary, summarise
from controller.allocation.requests.demand import ClaimFault
from controller.allocation.stock.usage import Use
from controller.allocation.trial import Placed, Trial

__all__ = [
    "ClaimFault",
    "Closest",
    "Exclusion",
    "Fleet",
    "Group",
    "NodeReasons",
    "Placed",
    "Shortage",
    "Summary",
    "Trial",
    "Unsatisfiable",
    "Use",
    "render",
    "summarise",
]
