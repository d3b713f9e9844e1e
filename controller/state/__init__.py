"""The state of the cluster as the controller knows it: the newest known version of each object, indexed. Pure.

Decisions are made from ``State``; ``apply`` feeds it with the reports of reflectors. Nodes with the pods that count on
them are ``controller.placement.Nodes``; devices are ``controller.allocation.Fleet``.

state          the whole state, kept up to date change by change
kinds          the kinds of objects that are followed: how each is decoded, which threads of reflectors may do, once for
               equal parts of many objects
handlers       updates the indexes when an object changes
gangs          groups pods into gangs, and finds the terms on which each starts
| knownnodes   nodes: what others change on each, and the annotations that keep autoscalers from them; also namespaces
               and volumes, which are read only to choose nodes
| kept_places  places that are kept for pods which preempt others
| budgets      PodDisruptionBudgets: what they select, and allow
| templates    the claims of pods that do not exist yet, and who names the templates that are made on demand
claims         claims by key, and the consumer of each
pods           the part of a pod that decisions depend on; pods by key and claim, and when they could be served
| devices      what is published: device classes, the nodes of slices, and the kinds of devices
| changes      who takes in the objects of a kind, and what has to be looked at again after that
times          time stamps of objects, and on the clock of this program
| versions     the known version of every object, and those that cannot be decoded; an older one replaces no newer one
"""

from controller.state.changes import Changes, Followed, Kinds
from controller.state.claims import ClaimRecord, Promise
from controller.state.kinds import (
    DEVICE_TAINT_RULES_BETA,
    GANG_RESOURCES,
    DecisionSettings,
    Decoded,
    StateDelta,
    decision_settings,
)
from controller.state.pods import PodView
from controller.state.state import State
from controller.state.times import NEVER, epoch_seconds

__all__ = [
    "DEVICE_TAINT_RULES_BETA",
    "GANG_RESOURCES",
    "NEVER",
    "Changes",
    "ClaimRecord",
    "DecisionSettings",
    "Decoded",
    "Followed",
    "Kinds",
    "PodView",
    "Promise",
    "State",
    "StateDelta",
    "decision_settings",
    "epoch_seconds",
]
