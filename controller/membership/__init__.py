"""Which pods are a gang, and on what terms it starts, in all the ways in which users say it. Pure.

A pod is in the gang of the first source that names one: its claims, the label or annotation of a group, or the object
that owns it. The object of a source says how many members have to start together. What becomes of a gang is decided
elsewhere (``controller.gangs``).

Example: a JobSet owns a pod with a claim whose ``PlacementConfig`` has ``gang: {}`` and the level "leaf". So the pods
of the JobSet are its members (``hints_of``, ``membership_of``). How many these are the JobSet says
(``job_set_from``), and the claim that they have to be together in one leaf (``config_of_pod``). The terms of all
members are merged (``agreed``): another level in the claim of another member is a contradiction, which is told and
decides nothing.

pods      the gang of a pod: what the pod says about it, and the first source that is found counts
groups    groups of five kinds, Jobs and StatefulSets, which determine the size of a gang
nested    groups of groups: which gang they are, and on which terms it starts
jobsets   number and order of the pods of a JobSet, and those still to come
| terms   terms on which a gang starts: of a pod's claims, of a group, of each member, and of the gang
"""

from controller.membership.groups import (
    GROUP_SOURCES,
    GroupObjects,
    Tiers,
    Workload,
    group_from,
    job_from,
    stateful_set_from,
    tiers_from,
)
from controller.membership.jobsets import (
    Coming,
    JobSet,
    LaterPart,
    Part,
    PodTemplate,
    coming,
    job_set_from,
    pod_template_from,
)
from controller.membership.pods import GangHints, MembershipInput, dependencies_of, hints_of, membership_of, rank_of_pod
from controller.membership.terms import (
    NO_CONFIG,
    ConfiguredGang,
    GangTerms,
    Group,
    Membership,
    MemberTerms,
    Quorum,
    Source,
    SubGroupPolicy,
    agreed,
    config_of_claim,
    config_of_pod,
    sub_group_of,
)

__all__ = [
    "GROUP_SOURCES",
    "NO_CONFIG",
    "Coming",
    "ConfiguredGang",
    "GangHints",
    "GangTerms",
    "Group",
    "GroupObjects",
    "JobSet",
    "LaterPart",
    "MemberTerms",
    "Membership",
    "MembershipInput",
    "Part",
    "PodTemplate",
    "Quorum",
    "Source",
    "SubGroupPolicy",
    "Tiers",
    "Workload",
    "agreed",
    "coming",
    "config_of_claim",
    "config_of_pod",
    "dependencies_of",
    "group_from",
    "hints_of",
    "job_from",
    "job_set_from",
    "membership_of",
    "pod_template_from",
    "rank_of_pod",
    "stateful_set_from",
    "sub_group_of",
    "tiers_from",
]
