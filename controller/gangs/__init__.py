"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a snapshot in, a plan or a refusal out. Users say in many ways which pods are a gang
and on what terms it starts; ``membership`` reads them.

decision        decides about a gang: bounds domains, searches those that may do, takes the best
domain_search   searches the domains that may take the gang, best first
domain_score    compares the domains that can take a gang
| unfinished    searches that ran out of steps, for the next decision to continue
exact_packing   exact search for places in one domain
free_units      most further units of each shape on places, during a search
search_context  inputs of a search in one domain
wholes          sub-groups that become whole, one choice after another
| levels        levels that have to hold, and groups of members that each holds for
budget          limits of a search: steps, and members to leave out
| mixed_bounds  most members of all shapes together in a domain
| bounds        most units of each shape in a domain
| staging       units on nodes on trial
memory          results about places from earlier decisions, to save time
| fitting       orders rooms so that few are needed and large ones stay whole
| verdicts      a verdict on each domain that does not take the gang
topology        domains, and the devices of nodes in each of them
| units         members that must share a node, and units of one shape
| membership    the gang of a pod: what the pod says about it, and the first source that is found counts
groups          PodGroups of three APIs, Jobs and StatefulSets, which determine the size of a gang
jobsets         number and order of the pods of a JobSet, and those still to come
| terms         terms on which a gang starts: of a pod's claims, of each member, and of the gang
| render        a refusal as one line of bounded length
gang            a gang and the decision about it, as values
"""

from controller.gangs.decision import choose
from controller.gangs.domain_score import DomainScore, Figures, Scoring, blocks_lost, score
from controller.gangs.domain_search import STEPS, SearchOptions
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
from controller.gangs.groups import (
    VERSIONS,
    Group,
    GroupObjects,
    Tiers,
    Workload,
    group_from,
    job_from,
    stateful_set_from,
    tiers_from,
)
from controller.gangs.jobsets import (
    Coming,
    JobSet,
    LaterPart,
    Part,
    PodTemplate,
    coming,
    job_set_from,
    pod_template_from,
)
from controller.gangs.membership import (
    GangHints,
    GroupName,
    MembershipInput,
    Owner,
    dependencies_of,
    group_id,
    hints_of,
    membership_of,
    rank_of_pod,
)
from controller.gangs.memory import Memory
from controller.gangs.render import render
from controller.gangs.terms import (
    NO_CONFIG,
    ConfiguredGang,
    GangTerms,
    Membership,
    MemberTerms,
    Source,
    SubGroupPolicy,
    agreed,
    config_of_claim,
    config_of_pod,
    sub_group_of,
)
from controller.gangs.unfinished import Unfinished
from controller.gangs.units import natural_sort_key

__all__ = [
    "NO_CONFIG",
    "STEPS",
    "VERSIONS",
    "Coming",
    "ConfiguredGang",
    "Domain",
    "DomainScore",
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
    "SearchOptions",
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
    "pod_template_from",
    "rank_of_pod",
    "render",
    "score",
    "stateful_set_from",
    "sub_group_of",
    "tiers_from",
]
