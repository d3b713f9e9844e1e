"""Decides where the members of a gang go: those that are needed, as its constraints say, and then further ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from controller.cluster import Cluster, WhatIf
from controller.gangs.domain_search import DEFAULT_OPTIONS, SearchOptions
from controller.gangs.domains import DomainScore
from controller.gangs.gang import Domain, DomainFit, Gang, GangPlan, Member, Standing, TriedDomains, ValueConstraint
from controller.gangs.member_values import ValueSpace
from controller.gangs.memory import Memory
from controller.gangs.needed import Decision, FoundPlaces
from controller.gangs.shared_claims import first_plan, lacking_claims, shared_claims
from controller.gangs.sub_groups import FurtherAttempts
from controller.gangs.units import CoLocatedMembers, in_order, units_of
from controller.gangs.value_rules import Capacities, MemberRules
from controller.placement import Placement
from controller.refusal import Refusal
from driver.errors import Fault
from driver.model import Allocation

_MOST_DECISIONS: Final = 64
"""Most sets of values with which one gang is decided. Further ones are not decided."""


def choose(gang: Gang, cluster: Cluster, options: SearchOptions = DEFAULT_OPTIONS) -> GangPlan | Refusal[TriedDomains]:
    """Decide where the members of the gang go, or why there is no place for its minimum.

    A refusal with ``after`` may change then, because the gang gives up a preferred level.

    The answer depends on the gang and the cluster only, not on the order in which they were built.
    """
    if options.memory is None:
        options = replace(options, memory=Memory())
    if (insisting := gang.insisting()) is not None:
        # Without ``unfinished``: it is another question. What is preferred is worth no member.
        found = _choose_reach(insisting, cluster, replace(options, unfinished=None))
        if isinstance(found, GangPlan) and len(found.placements) == len(gang.members):
            return found
    answer = _choose_reach(gang, cluster, options)
    if isinstance(answer, GangPlan) or answer.faults:
        return answer
    lacking = lacking_claims(gang.members, cluster)
    return replace(answer, why=replace(answer.why, lacking=lacking)) if lacking else answer


def _choose_reach(gang: Gang, cluster: Cluster, options: SearchOptions) -> GangPlan | Refusal[TriedDomains]:
    """Decide as ``choose`` does; what the claims only prefer does not count."""
    refusal = None
    if shared := shared_claims(gang.members, cluster):
        # Without ``unfinished``: these are other questions.
        trial = replace(options, unfinished=None)
        found = first_plan(shared, cluster, gang, lambda asked: _choose(asked, cluster, trial))
        if isinstance(found, GangPlan):
            return found
        refusal = found
    answer = _choose(gang, cluster, options)
    # On one node each for those that share: a device that many nodes reach says more about what is missing.
    return answer if refusal is None or isinstance(answer, GangPlan) else refusal


def _choose(gang: Gang, cluster: Cluster, options: SearchOptions) -> GangPlan | Refusal[TriedDomains]:
    """Decide as ``choose`` does; those that share a claim come to one node."""
    # In one order, so that the same gang gets the same answer however its members came.
    gang = replace(gang, members=tuple(in_order(gang.members)))
    units = units_of(gang, cluster.devices, cluster.nodes)
    if isinstance(units, tuple):
        return Refusal(gang.key, TriedDomains(), faults=units)
    if options.unfinished is not None and not options.unfinished.forget_other_questions(gang, units, cluster):
        options = replace(options, unfinished=None)
    found = _needed(gang, units, cluster, options)
    if isinstance(found, Refusal):
        return found
    # Without ``unfinished``: these are other questions, and what is not needed is worth no second search.
    further = _further(gang, found.placements, cluster, SearchOptions(options.budget, options.memory))
    placements = [*found.placements, *further]
    order = {member.demand.key: number for number, member in enumerate(gang.members)}
    placements.sort(key=lambda placement: order[placement.pod])
    return GangPlan(found.decision.domain_of(placements), tuple(placements))


def _further(gang: Gang, placed: Sequence[Placement], cluster: Cluster, options: SearchOptions) -> Iterator[Placement]:
    """Places members beyond the minimum, as many as fit.

    Complete sub-groups come first, then members of no sub-group, and of sub-groups with members that have their place.
    """
    # Each attempt is a decision of its own on the cluster in which those before are placed. So the members that are
    # needed are where they would be if these were all, and none of them stays out for one that is not needed.
    attempts = FurtherAttempts()
    units: Sequence[CoLocatedMembers] | tuple[Fault, ...] = []
    members: Sequence[Member] = ()
    with cluster.what_if() as trial:
        while len(placed) < len(gang.members) and (placed or attempts.continues):
            if placed:
                _place(trial, gang, placed)
                gang = _without(gang, placed)
            asked = attempts.next_gang(gang)
            if asked.members is not members:
                members, units = asked.members, units_of(asked, cluster.devices, cluster.nodes)
            assert not isinstance(units, tuple)
            answer = _needed(asked, units, cluster, options) if units else None
            placed = answer.placements if isinstance(answer, FoundPlaces) else ()
            attempts.record(placed=bool(placed))
            yield from placed


def _place(trial: WhatIf, gang: Gang, placements: Sequence[Placement]) -> None:
    """Count the members at these places. What members share counts once."""
    demands = {member.demand.key: member.demand for member in gang.members}
    given: dict[str, Allocation] = {}
    for placement in placements:
        demand = demands[placement.pod]
        trial.add_pod(demand.key, demand.needs, placement.node)
        for claim, allocation in demand.given(placement):
            given.setdefault(claim.uid, allocation)
    for uid, allocation in given.items():
        trial.use(uid, allocation)


def _without(gang: Gang, placements: Sequence[Placement]) -> Gang:
    """The gang after these placements."""
    placed = {placement.pod: placement for placement in placements}
    every = [(member, placed.get(member.demand.key)) for member in gang.members]
    standing = tuple(
        Standing(
            member.demand.key,
            placement,
            rank=member.rank,
            leader=member.leader,
            task=member.task,
            sub_group=member.sub_group,
        )
        for member, placement in every
        if placement
    )
    left = tuple(member for member, placement in every if not placement)
    return replace(
        gang,
        members=left,
        standing=(*gang.standing, *standing),
        minimum=1,
        task_minimums=(),
        sub_groups=tuple([replace(kind, minimum=0) for kind in gang.sub_groups]),
        starts=False,
    )


def _needed(
    gang: Gang, units: Sequence[CoLocatedMembers], cluster: Cluster, options: SearchOptions
) -> FoundPlaces | Refusal[TriedDomains]:
    """Places for the members that are needed, as the constraints of the gang say."""
    without = Decision(gang, units, cluster, options).run()
    if not gang.constraints or isinstance(without, Refusal) or without.score is None:
        return without
    decision, memory = without.decision, options.memory
    assert memory is not None
    space = ValueSpace(gang, units, cluster, memory, decision.unconstrained())
    search = _ByValues(gang, units, cluster, options, space=space, without=without)
    required = [one for one in gang.constraints if one.required]
    floor = search.best(required)
    if floor is None:
        return search.refusal(required)
    preferred = [one for one in gang.constraints if not one.required]
    while preferred:
        # As with levels, those at the end are given up first.
        found = search.best([one for one in gang.constraints if one.required or one in preferred])
        if found is not None and found.costs_no_more_than(floor):
            return found
        preferred.pop()
    return floor


class _ByValues:
    """Decides about a gang with constraints: one set of values after another, as ``member_values`` says.

    Args:
        without: the decision without any constraint: none with one is better.
    """

    def __init__(
        self,
        gang: Gang,
        units: Sequence[CoLocatedMembers],
        cluster: Cluster,
        options: SearchOptions,
        space: ValueSpace,
        without: FoundPlaces,
    ):
        self._gang = gang
        self._units = units
        self._cluster = cluster
        self._options = options
        self._space = space
        self._without = without
        self._steps = without.decision.steps_left
        self._decided = True

    def best(self, constraints: Sequence[ValueConstraint]) -> FoundPlaces | None:
        """The best places under these constraints; None if there are none, or if none were found in time."""
        space, without = self._space, self._without
        if all(space.met(one, without.placements) for one in constraints):
            return without
        every = [(self._least(capacities), rules) for rules, capacities in space.rules(constraints)]
        every.sort(key=lambda one: one[0])
        best: FoundPlaces | None = None
        undecided: list[MemberRules] = []
        for number, (least, rules) in enumerate(every[:_MOST_DECISIONS]):
            # They are in the order of what they can have, so no later one can be better either.
            if best is not None and best.rank <= max(least, without.rank):
                break
            answer = self._decide(rules, part=len(every) - number)
            if isinstance(answer, FoundPlaces):
                best = answer if best is None or answer.rank < best.rank else best
            elif not answer.why.decided:
                undecided.append(rules)
        # Each had a share of the steps only. With all that is left one may do after all: else a gang would wait for a
        # change in a cluster that has its place.
        for rules in undecided if best is None else ():
            answer = self._decide(rules)
            if isinstance(answer, FoundPlaces):
                return answer
        self._decided = space.complete and not undecided and len(every) <= _MOST_DECISIONS
        return best

    def _least(self, capacities: Capacities) -> tuple[int, DomainScore]:
        """The best rank that places can have with such capacities; that without constraints if nothing is known."""
        return self._without.decision.least_rank(capacities, self._space.counts) or self._without.rank

    def _decide(self, rules: MemberRules, part: int = 1) -> FoundPlaces | Refusal[TriedDomains]:
        """Decide with these values, with one in ``part`` of the steps that are left."""
        steps = self._steps // part
        options = replace(self._options, budget=steps)
        decision = Decision(self._gang, self._units, self._cluster, options, rules=rules, counts=self._space.counts)
        answer = decision.run()
        self._steps -= steps - decision.steps_left
        return answer

    def refusal(self, constraints: Sequence[ValueConstraint]) -> FoundPlaces | Refusal[TriedDomains]:
        """Say how far each domain fits with the values that most members can get, after ``best`` has found nothing.

        If they all fit, because there were too many sets to try, it is the answer.
        """
        closest = self._space.closest(constraints)
        answer = self._decide(closest)
        if isinstance(answer, FoundPlaces):
            if not self._space.nobody_has_any_of(constraints):
                return answer
            fit = DomainFit(Domain(), len(self._gang.standing), len(self._gang.standing) + len(answer.placements))
            answer = Refusal(self._gang.key, TriedDomains((fit,)))
        fits = answer.why.fits if self._decided else tuple([replace(fit, decided=False) for fit in answer.why.fits])
        why = replace(answer.why, fits=fits, nowhere="", values=self._space.why(constraints, closest))
        return replace(answer, why=why)
