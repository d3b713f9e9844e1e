"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a snapshot in, a plan or a refusal out; ``render`` says a refusal in one line.

    units       members as what is placed: those that share a claim are one unit
    topology    which devices are in which domain
    Memory      what was found about places for earlier gangs; it saves time
    counting    how many members domains take at most
    competing   the same for unlike members together
    staging     members on nodes on trial, with everything that is known
    packing     the exact search in one domain
    searching   the searches in all domains that may take the gang
    unfinished  searches that ran out of steps, and go on with the next decision
    choice      which of the domains that can take the gang is chosen
    tiers       which levels have to hold: all of them, then without preferred ones
    verdicts    what is said about each domain that does not take the gang

Which pods belong to a gang, and on what it starts, follows from what users write:

    hints_of, rank_of_pod     what a pod itself says (labels, annotations, owner, scheduling group)
    asked_by_claim, asked_by_pod    what its claims ask (PlacementConfig)
    GroupObjects              objects that say how many members there are (PodGroups, Jobs, StatefulSets)
    group_from, tiers_from    PodGroups of three APIs, and what tiers of Volcano stand for
    membership_of             the gang of a pod, from all of these: the first source that is found counts
    agreed                    the terms of a gang, or the contradictions between its members
"""

from controller.gangs.agreement import agreed
from controller.gangs.asked import NOTHING, Asked, asked_by_claim, asked_by_pod
from controller.gangs.choice import Figures, Rank, Ranking, blocks_lost, rank
from controller.gangs.choose import STEPS, choose
from controller.gangs.gang import (
    Domain,
    DomainVerdict,
    Gang,
    GangPlan,
    GangRefusal,
    Level,
    Member,
    Policy,
    Standing,
    TaskMinimums,
)
from controller.gangs.groups import VERSIONS, Group, GroupObjects, Workload, job_from, stateful_set_from
from controller.gangs.hints import GangHints, GroupName, Owner, hints_of, rank_of_pod
from controller.gangs.membership import PodFacts, dependencies_of, group_id, membership_of
from controller.gangs.memory import Memory
from controller.gangs.podgroups import Tiers, group_from, tiers_from
from controller.gangs.render import render
from controller.gangs.terms import GangTerms, Membership, Source, Statement
from controller.gangs.unfinished import Unfinished
from controller.gangs.units import natural

__all__ = [
    "NOTHING",
    "STEPS",
    "VERSIONS",
    "Asked",
    "Domain",
    "DomainVerdict",
    "Figures",
    "Gang",
    "GangHints",
    "GangPlan",
    "GangRefusal",
    "GangTerms",
    "Group",
    "GroupName",
    "GroupObjects",
    "Level",
    "Member",
    "Membership",
    "Memory",
    "Owner",
    "PodFacts",
    "Policy",
    "Rank",
    "Ranking",
    "Source",
    "Standing",
    "Statement",
    "TaskMinimums",
    "Tiers",
    "Unfinished",
    "Workload",
    "agreed",
    "asked_by_claim",
    "asked_by_pod",
    "blocks_lost",
    "choose",
    "dependencies_of",
    "group_from",
    "group_id",
    "hints_of",
    "job_from",
    "membership_of",
    "natural",
    "rank",
    "rank_of_pod",
    "render",
    "stateful_set_from",
    "tiers_from",
]
