"""What to do about one pod, gang or claim, from what is known and nothing else: deciding changes no state. Pure.

What is remembered between decisions belongs to their owner, who fills it from what decisions say: a
``PlacementHistory`` for each pod, and one ``RefusalMemory``.

deadlines           when pods have ended at the latest, and when a gang can start
prospects           what could help a pod that no node takes
gangs               what to do about the members of a gang, all of them or none
later               members of a gang that do not exist yet, as demands
gangprogress        how far the members of a gang have come
pods                what to do about a pod
| claims            what to do about a claim that nobody uses
| messages          why no node takes a pod, as text and as JSON
context             what a decision takes into account besides the state
refusals            why each node refuses a pod, remembered while nothing changes
double_allocation   claims that together hold more than there is
| expected          what kube-scheduler is expected to allocate for pods that were let go
| unhealthy         the pods that use devices which do not work
examined            how far a pod has come that is about to be placed
history             where kube-scheduler refused a pod
| nodes             which node a pod goes to
| podclaims         the claims of a pod, and what is wrong with them
| updates           what a decision means for claims, as changes of their ``status``
| verdicts          what kube-scheduler says about a pod that it does not bind
decisions           what can be decided, as values
| enforcement       what keeps containers on a shared card within their parts
"""

from controller.reconcile.claims import ORPHAN_SECONDS, decide_claim
from controller.reconcile.context import NO_CONTEXT, DecisionContext
from controller.reconcile.deadlines import latest_end, latest_end_of_new, predicted_start
from controller.reconcile.decisions import (
    ClaimDecision,
    Decision,
    FreeClaim,
    Idle,
    LetGo,
    PlacePod,
    Reason,
    Release,
    TakeBack,
    Unallocatable,
    Wait,
)
from controller.reconcile.double_allocation import SETTLING_SECONDS, DoubleUse, double_use
from controller.reconcile.gangprogress import KnownGang, KnownMember, known_gang
from controller.reconcile.gangs import Choose, GangDecision, decide_gang, room_for_later
from controller.reconcile.history import (
    LAST_RESORT_SECONDS,
    NO_HISTORY,
    PATIENCE_SECONDS,
    NodeVerdict,
    PlacementHistory,
    WriteRefusal,
)
from controller.reconcile.messages import IN_VAIN, Explanation, explanation_of, refusal_summary, rests_on_memory
from controller.reconcile.nodes import ANY_NODE, NodeRestrictions
from controller.reconcile.pods import RELEASE_SECONDS, decide
from controller.reconcile.prospects import (
    could_take,
    depends_on_other_pods,
    fits_without_later_pods,
    node_to_hold,
    start_without,
)
from controller.reconcile.refusals import NO_MEMORY, NodeRefusal, Questions, RefusalMemory, ask_all
from controller.reconcile.unhealthy import UnhealthyUse, unhealthy_use
from controller.reconcile.updates import (
    Allocate,
    ClaimUpdate,
    Deallocate,
    Reserve,
    Unreserve,
    claim_updates,
    patched_status,
)
from controller.reconcile.verdicts import relevant_reason

__all__ = [
    "ANY_NODE",
    "IN_VAIN",
    "LAST_RESORT_SECONDS",
    "NO_CONTEXT",
    "NO_HISTORY",
    "NO_MEMORY",
    "ORPHAN_SECONDS",
    "PATIENCE_SECONDS",
    "RELEASE_SECONDS",
    "SETTLING_SECONDS",
    "Allocate",
    "Choose",
    "ClaimDecision",
    "ClaimUpdate",
    "Deallocate",
    "Decision",
    "DecisionContext",
    "DoubleUse",
    "Explanation",
    "FreeClaim",
    "GangDecision",
    "Idle",
    "KnownGang",
    "KnownMember",
    "LetGo",
    "NodeRefusal",
    "NodeRestrictions",
    "NodeVerdict",
    "PlacePod",
    "PlacementHistory",
    "Questions",
    "Reason",
    "RefusalMemory",
    "Release",
    "Reserve",
    "TakeBack",
    "Unallocatable",
    "UnhealthyUse",
    "Unreserve",
    "Wait",
    "WriteRefusal",
    "ask_all",
    "claim_updates",
    "could_take",
    "decide",
    "decide_claim",
    "decide_gang",
    "depends_on_other_pods",
    "double_use",
    "explanation_of",
    "fits_without_later_pods",
    "known_gang",
    "latest_end",
    "latest_end_of_new",
    "node_to_hold",
    "patched_status",
    "predicted_start",
    "refusal_summary",
    "relevant_reason",
    "rests_on_memory",
    "room_for_later",
    "start_without",
    "unhealthy_use",
]
