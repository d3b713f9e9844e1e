"""Decides about one pod, gang or claim. A decision is a value, and making one changes no state. Pure.

The face has the questions; ``decisions`` has the answers. The caller keeps the memory between decisions: a
``PlacementHistory`` for each pod, and one ``controller.refusal.AskedInVain``.

prospects           finds changes that could help a pod or gang that has no place, such as the end of others
gangs               decides about the members of a gang, all of them or none
gangmembers         the members of a gang: the progress of those that exist, and the demands of those to come
pods                decides about a pod
lettinggo           letting pods go: when, what kube-scheduler allocates for them then, and what if nobody binds them
demand              a pod that is about to be placed, the nodes that it may go to, and what quotas allow
history             the nodes where kube-scheduler refused a pod or is trying it again, and the evictions for it
| podclaims         the claims of a pod: which are ours, their faults, and what they must have in common
| claims            decides about a claim: nobody uses it, others hold its devices, or these do not work
decisions           decisions, as values, and what each changes in the ``status`` of claims
| othernames        what a text on an object says of objects in other namespaces
"""

from controller.reconcile.claims import decide_claim
from controller.reconcile.demand import NodeRestrictions
from controller.reconcile.gangmembers import known_gang
from controller.reconcile.gangs import decide_gang
from controller.reconcile.history import NO_HISTORY, PlacementHistory
from controller.reconcile.pods import DecisionContext, decide

__all__ = [
    "NO_HISTORY",
    "DecisionContext",
    "NodeRestrictions",
    "PlacementHistory",
    "decide",
    "decide_claim",
    "decide_gang",
    "known_gang",
]
