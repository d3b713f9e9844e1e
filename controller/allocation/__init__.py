"""Which devices of a node a pod's claims get: a pure function of all slices, classes, claims and taint rules."""

from controller.allocation.demand import ClaimFault
from controller.allocation.fleet import Fleet
from controller.allocation.reasons import Exclusion, Shortage, Unsatisfiable
from controller.allocation.render import render
from controller.allocation.summary import Closest, Group, NodeReasons, Summary, summarise
from controller.allocation.trial import Placed, Trial
from controller.allocation.usage import Use

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
