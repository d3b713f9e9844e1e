"""Gangs: pods that start together or not at all, inside one domain of the topology. Pure.

``choose`` is the entry: a gang and a cluster in, a plan or a refusal out. Which pods are a gang, and on what terms it
starts, is read elsewhere (``controller.membership``).

The terms:

* A *member* is a pod of the gang. Members to place are ``Gang.members``; a member that has a place is *standing*, and
  keeps it. Of the others at least as many are placed as the *minimum* lacks, or none.
* A *level* is a kind of place in the topology, such as "leaf". A *domain* of a level is one such place, inside one
  domain of each level around it: leaf a1 of cluster a. Its *sub-domains* are those of the next level inside it. A level
  is *required*, or *preferred*: then it is given up if the gang finds no place otherwise.
* A *node* is, in this package, the devices of a node in one domain: mostly all of them.
* A *unit* is what has to be on one node because it shares a claim for devices of one node: mostly one member. Units
  that ask for the same are of one *shape*.
* A *sub-group* is a part of the gang, such as one replica of a model. It becomes *whole*, with as many members as
  the user says, or none of its members is placed.
* A *bound* says how much fits at most. It may be too high, never too low. That of a domain is its *capacity*.
* A *step* is a placement that failed or was undone in a search. After so many of them, a search ends undecided.

How a gang is decided, by an example. Nodes n1 to n6 have these free cards:

    cluster a                        cluster b
      leaf a1         leaf a2          leaf b1         leaf b2
        n1  # # # #     n3  # #          n5  # # # #     n6  # # # #
        n2  # # #       n4  # #

A gang of five members with two cards each has the minimum four. It has to be in one cluster (required), and would
rather be in one leaf (preferred).

1. *Units* (``units``). No two members share a claim and all ask for the same: five units of one shape.
2. *First attempt* (``levels``): cluster and leaf have to hold. Bounds (``bounds``): n1 takes two members, n2 one, n3
   one, and so on, so a1 takes three, and a2, b1 and b2 take two each. Four are needed: no leaf is searched at all.
3. *Second attempt*: without the innermost preferred level. a takes five members and b four, so both may do.
4. *Scores* (``domains``). In both clusters four members need two leaves at least. Then there is capacity for one
   more in a, and for none in b. A domain that is filled up leaves the emptier one to larger gangs: b is better.
5. *Search* (``domain_search``, ``exact_packing``), the better domain first: two members on n5 and two on n6. The fifth
   is left out, which the minimum allows. b has the score that it was hoped to have, so a is not searched.
6. *Further members* (``decision``). The gang is in b now, which is full. So the fifth member has no place, and is
   decided about again when something has changed.

Without cluster b, all five would be in a. If no cluster took four members, the refusal would say of each domain
what fits there, and what is missing. ``test_worked_example`` follows this example. ``test_laws`` and those beside it
decide small gangs of all kinds, and compare the answers with trying every assignment (``exhaustive``).

decision       decides about a gang: places the members that are needed, and then further ones
needed         places the members that are needed: bounds domains, searches those that may do, takes the best
domain_search  searches the domains that may take the gang, best first; what ran out of steps goes on later
| member_values  values that the members' devices have to have in common: which are possible, and what is missing
exact_packing  exact search for nodes in one domain
| shared_claims  members that share a claim for a device of several nodes
staging        units on nodes on trial
value_rules    what the values of the members' devices have to be, and most members that find such values in domains
domains        the score of each domain that takes the gang, and how far each other one fits, also as one line of text
| bounds       most units and members that domains take
| sub_groups   sub-groups that become whole, one choice after another
levels         levels that have to hold, and groups of members that each holds for
| memory       results about nodes from earlier decisions, to save time
topology       domains, and the devices of nodes in each of them
units          members that must share a node, and units of one shape
gang           a gang and the decision about it, as values
"""

from controller.gangs.decision import choose
from controller.gangs.domain_search import STEPS, SearchOptions, Unfinished
from controller.gangs.domains import render
from controller.gangs.gang import (
    Gang,
    GangPlan,
    Level,
    Member,
    Standing,
    SubGroup,
    SubGroups,
    TaskMinimums,
    TriedDomains,
    ValueConstraint,
)
from controller.gangs.memory import Memory
from controller.gangs.units import natural_sort_key

__all__ = [
    "STEPS",
    "Gang",
    "GangPlan",
    "Level",
    "Member",
    "Memory",
    "SearchOptions",
    "Standing",
    "SubGroup",
    "SubGroups",
    "TaskMinimums",
    "TriedDomains",
    "Unfinished",
    "ValueConstraint",
    "choose",
    "natural_sort_key",
    "render",
]
