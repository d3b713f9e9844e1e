"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a snapshot in, a plan or a refusal out. Which pods belong to a gang, and on what it
starts, follows from what users write:

    hints_of, rank_of_pod     what a pod itself says (labels, annotations, owner, scheduling group)
    asked_by_claim, asked_by_pod    what its claims ask (PlacementConfig)
    GroupObjects              objects that say how many members there are (PodGroups, Jobs, StatefulSets)
    membership_of             the gang of a pod, from all of these: the first source that is found counts
    agreed                    the terms of a gang, or the contradictions between its members
"""

from controller.gangs.agreement import agreed
from controller.gangs.asked import NOTHING, Asked, asked_by_claim, asked_by_pod
from controller.gangs.gang import Level, Policy
from controller.gangs.groups import VERSIONS, Group, GroupObjects, Workload, job_from, stateful_set_from
from controller.gangs.hints import GangHints, GroupName, Owner, hints_of, rank_of_pod
from controller.gangs.membership import PodFacts, dependencies_of, group_id, membership_of
from controller.gangs.terms import GangTerms, Membership, Source, Statement

__all__ = [
    "NOTHING",
    "VERSIONS",
    "Asked",
    "GangHints",
    "GangTerms",
    "Group",
    "GroupName",
    "GroupObjects",
    "Level",
    "Membership",
    "Owner",
    "PodFacts",
    "Policy",
    "Source",
    "Statement",
    "Workload",
    "agreed",
    "asked_by_claim",
    "asked_by_pod",
    "dependencies_of",
    "group_id",
    "hints_of",
    "job_from",
    "membership_of",
    "rank_of_pod",
    "stateful_set_from",
]
