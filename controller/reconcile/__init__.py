"""Decides about one pod, gang or claim. A decision is a value, and making one changes no state. Pure.

The caller keeps the memory between decisions: a ``PlacementHistory`` for each pod, and one ``RefusalMemory``.

deadlines           predicts the latest end of pods, and from these the start of a gang
| fitsnow           decides whether the pods of a Workload of Kueue would get their devices now
newnodes            finds pods that a new node would take, for autoscalers
| protecting        finds the nodes that autoscalers must leave alone
prospects           finds changes that could help a pod that no node takes
gangs               decides about the members of a gang, all of them or none
gangplaces          turns the places of a gang's plan into decisions
| later             the demands of gang members that do not exist yet
gangprogress        the progress of the members of a gang
pods                decides about a pod
lettinggo           whether a pod can be let go on the node and the devices that its claims hold
| unbound           pods that were let go, and that nobody binds
| claims            decides about a claim that nobody uses
| messages          renders why no node takes a pod, as text and for JSON
gangdecision        the decisions about all members of a gang, as a value
| context           the value that a decision takes into account besides the state
refusals            finds the reasons why nodes refuse a pod, and remembers them
double_allocation   finds claims that together hold more than there is
| expected          what kube-scheduler is about to allocate for pods that were let go
| unhealthy         finds pods whose devices do not work
examined            a pod that is about to be placed
history             the nodes where kube-scheduler refused a pod, and the evictions for it
| nodes             the nodes that a pod may be placed on, and its demand
| podclaims         the claims of a pod, and their faults
| quotas            decides whether the quotas of a namespace allow what would be allocated
| updates           turns a decision into changes of the ``status`` of claims
| verdicts          reads the messages of kube-scheduler about pods that it does not bind
ondemand            the templates whose names say what they ask for: when they are made and removed
decisions           decisions, as values
| othernames        what a text on an object says of objects in other namespaces
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
    MakeRoom,
    PlacePod,
    Reason,
    Release,
    TakeBack,
    Unallocatable,
    Victim,
    Wait,
    is_recorded,
)
from controller.reconcile.double_allocation import SETTLING_SECONDS, DoubleUse, double_use
from controller.reconcile.fitsnow import DoesNotFit, FitAnswer, FitsNow, NotDecided, fits_now
from controller.reconcile.gangdecision import GangDecision
from controller.reconcile.gangprogress import KnownGang, KnownMember, known_gang
from controller.reconcile.gangs import Choose, decide_gang, room_for_later
from controller.reconcile.history import (
    LAST_RESORT_SECONDS,
    NO_HISTORY,
    PATIENCE_SECONDS,
    RELEASE_SECONDS,
    NodeVerdict,
    PlacementHistory,
    WriteRefusal,
)
from controller.reconcile.messages import IN_VAIN, Explanation, explanation_of, refusal_summary, rests_on_memory
from controller.reconcile.newnodes import NewNodes, NodeWishes, wish_of
from controller.reconcile.nodes import ANY_NODE, NodeRestrictions
from controller.reconcile.ondemand import (
    MakeTemplate,
    RefuseTemplate,
    RemoveTemplate,
    TemplateDecision,
    decide_template,
    wait_for_template,
)
from controller.reconcile.othernames import named_within
from controller.reconcile.pods import decide
from controller.reconcile.prospects import (
    could_take,
    depends_on_other_pods,
    fits_without_later_pods,
    node_to_hold,
    start_without,
)
from controller.reconcile.protecting import ProtectNode, awaited_nodes, protection_changes
from controller.reconcile.quotas import quota_wait
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
    "DoesNotFit",
    "DoubleUse",
    "Explanation",
    "FitAnswer",
    "FitsNow",
    "FreeClaim",
    "GangDecision",
    "Idle",
    "KnownGang",
    "KnownMember",
    "LetGo",
    "MakeRoom",
    "MakeTemplate",
    "NewNodes",
    "NodeRefusal",
    "NodeRestrictions",
    "NodeVerdict",
    "NodeWishes",
    "NotDecided",
    "PlacePod",
    "PlacementHistory",
    "ProtectNode",
    "Questions",
    "Reason",
    "RefusalMemory",
    "RefuseTemplate",
    "Release",
    "RemoveTemplate",
    "Reserve",
    "TakeBack",
    "TemplateDecision",
    "Unallocatable",
    "UnhealthyUse",
    "Unreserve",
    "Victim",
    "Wait",
    "WriteRefusal",
    "ask_all",
    "awaited_nodes",
    "claim_updates",
    "could_take",
    "decide",
    "decide_claim",
    "decide_gang",
    "decide_template",
    "depends_on_other_pods",
    "double_use",
    "explanation_of",
    "fits_now",
    "fits_without_later_pods",
    "is_recorded",
    "known_gang",
    "latest_end",
    "latest_end_of_new",
    "named_within",
    "node_to_hold",
    "patched_status",
    "predicted_start",
    "protection_changes",
    "quota_wait",
    "refusal_summary",
    "relevant_reason",
    "rests_on_memory",
    "room_for_later",
    "start_without",
    "unhealthy_use",
    "wait_for_template",
    "wish_of",
]
