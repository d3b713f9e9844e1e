"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a snapshot in, a plan or a refusal out. Which pods belong to a gang, and on what it
starts, follows from what users write: ``membership``.

decision        the decision about a gang: counts domains, searches those that may take it, takes the best
domain_search   the searches in all domains that may take the gang
domain_score    which of the domains that can take a gang is chosen
| tiers         which levels have to hold: all of them, then without preferred ones
| unfinished    searches that ran out of steps, and go on with the next decision
exact_packing   the exact search in one domain
wholes          which sub-groups become whole, one choice after another
budget          what a search may spend, and which members it may leave out
| mixed_bounds  how many unlike members domains take at most
| bounds        how many units of each kind domains take at most
| fitting       into which rooms something goes, so that few are needed and large ones stay whole
| grouping      which members have to be in one domain of a level
| staging       units on nodes on trial, with everything that is known
memory          what was found about places for earlier gangs; it saves time
| verdicts      what is said about each domain that does not take the gang
topology        which devices are in which domain
| units         members as what is placed: those that share a claim are one unit
agreement       the terms of a gang, or the contradictions between its members
| membership    the gang of a pod: the first source that is found counts
| podgroups     PodGroup objects of three APIs as values
config          what the claims of a pod ask about its gang (``PlacementConfig``)
| groups        objects that say how many members a gang has
| hints         what a pod itself says: labels, annotations, owner, scheduling group
annotations     what annotations of a pod ask of the topology
| jobsets       how many pods a JobSet makes, in which order, and which of them are still to come
| render        a refusal in one line of bounded length
| terms         on what a gang starts, and what each member says about that
gang            a gang as the decision sees it, and the decision as a value
"""

from controller.gangs.agreement import agreed
from controller.gangs.config import NO_CONFIG, GangConfig, config_of_claim, config_of_pod
from controller.gangs.decision import STEPS, choose
from controller.gangs.domain_score import DomainScore, Figures, Scoring, blocks_lost, score
from controller.gangs.gang import (
    Domain,
    DomainVerdict,
    Gang,
    GangPlan,
    GangRefusal,
    Level,
    Member,
    Standing,
    SubGroup,
    SubGroups,
    TaskMinimums,
)
from controller.gangs.groups import VERSIONS, Group, GroupObjects, Workload, job_from, stateful_set_from
from controller.gangs.hints import GangHints, GroupName, Owner, hints_of, rank_of_pod
from controller.gangs.jobsets import (
    Coming,
    JobSet,
    LaterPart,
    Part,
    PodTemplate,
    coming,
    job_set_from,
)
from controller.gangs.membership import MembershipInput, dependencies_of, group_id, membership_of
from controller.gangs.memory import Memory
from controller.gangs.podgroups import Tiers, group_from, tiers_from
from controller.gangs.render import render
from controller.gangs.terms import GangTerms, Membership, MemberTerms, Source, SubGroupPolicy, sub_group_of
from controller.gangs.unfinished import Unfinished
from controller.gangs.units import natural_sort_key

__all__ = [
    "NO_CONFIG",
    "STEPS",
    "VERSIONS",
    "Coming",
    "Domain",
    "DomainScore",
    "DomainVerdict",
    "Figures",
    "Gang",
    "GangConfig",
    "GangHints",
    "GangPlan",
    "GangRefusal",
    "GangTerms",
    "Group",
    "GroupName",
    "GroupObjects",
    "JobSet",
    "LaterPart",
    "Level",
    "Member",
    "MemberTerms",
    "Membership",
    "MembershipInput",
    "Memory",
    "Owner",
    "Part",
    "PodTemplate",
    "Scoring",
    "Source",
    "Standing",
    "SubGroup",
    "SubGroupPolicy",
    "SubGroups",
    "TaskMinimums",
    "Tiers",
    "Unfinished",
    "Workload",
    "agreed",
    "blocks_lost",
    "choose",
    "coming",
    "config_of_claim",
    "config_of_pod",
    "dependencies_of",
    "group_from",
    "group_id",
    "hints_of",
    "job_from",
    "job_set_from",
    "membership_of",
    "natural_sort_key",
    "rank_of_pod",
    "render",
    "score",
    "stateful_set_from",
    "sub_group_of",
    "tiers_from",
]
