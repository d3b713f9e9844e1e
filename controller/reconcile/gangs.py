"""Decides about the members of one gang. Pure.

All or nothing, without a record of its own
    A gang is placed in two phases. First the claims of all members of its plan are allocated, and every gate stays. The
    gates are removed only when all claims are known to be written. So the claims and gates show the progress of the
    gang:

    - Members hold devices and all are gated: the first phase was interrupted. The others are placed beside them, in
      their domain. If they cannot be, everything is taken back.
    - A member without a gate holds devices: the second phase has begun, so there was a place for each. The other gates
      are removed, too.

    A pod that has lost its gate cannot get it again. If it has to be placed once more together with gated members, its
    claims are written after theirs, because kube-scheduler may bind it as soon as they are.

One part after another
    A JobSet may make members when others are ready. The first members start when all that are made at once exist, in a
    domain with room for all. Members to come have places in the plan, and nothing is written about them. A hold keeps
    that room for them (``controller.waiting.held``).

Sub-groups
    One that begins when the gang has started goes through the same two phases. If it cannot become whole any more, what
    its members hold is taken back.

Quotas
    A gang counts whole, with the members to come. If the quotas of its namespace do not allow that, it waits, and holds
    nothing. After the start, members count one by one, and a sub-group whole.

After the start
    A member that kube-scheduler refuses is moved by the rules for one pod (``controller.reconcile.pods``), but within
    the gang's domain. If no place is left there, the other members are taken back as well, unless one is bound: a
    running pod is never stopped. Members that come after the start need not wait for one another.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from controller.gangs import Gang, GangPlan, Member, Standing, SubGroups, TaskMinimums, TriedDomains
from controller.gangs import render as render_gang
from controller.membership import GangTerms
from controller.placement import Placement, PodDemand
from controller.reconcile.decisions import (
    Decision,
    GangDecision,
    LetGo,
    PlacePod,
    PodQuestion,
    PodRefusal,
    Reason,
    Wait,
)
from controller.reconcile.demand import NeedsDevices, quota_wait, reachable_nodes
from controller.reconcile.gangmembers import GangProgress, Histories, KnownGang, later_members
from controller.reconcile.history import NO_HISTORY
from controller.reconcile.lettinggo import hold_expected_foreign_use
from controller.reconcile.othernames import in_use
from controller.reconcile.podclaims import EVALUATION_PAUSE_SECONDS
from controller.reconcile.pods import NO_CONTEXT, DecisionContext, place, question_about
from controller.refusal import Refusal
from controller.state import State
from driver.limits import listed
from driver.model import Consumer

QUIET_SECONDS = 2.0
"""Least time without a new member before a gang starts with fewer than all its members.

Time stamps of pods have whole seconds, so this is at least one second; Kubernetes' own controllers create pods faster
than that.
"""
INCOMPLETE_SECONDS = 10.0
"""Time after its last member appeared at which a gang is reported as incomplete. Until then it is most likely being
made."""

Choose = Callable[[Gang], GangPlan | Refusal[TriedDomains]]
"""``controller.gangs.choose`` on the state that is decided on."""


def decide_gang(
    state: State,
    gang: KnownGang,
    now: float,
    choose: Choose,
    *,
    history_of: Histories = lambda _: NO_HISTORY,
    context: DecisionContext = NO_CONTEXT,
) -> GangDecision:
    """Decide about the members of ``gang`` at ``now`` (as of ``State.at``). Changes none of its arguments.

    Args:
        choose: the search for a domain.
        history_of: the nodes that refused each pod before.
    """
    return _GangDecider(state, gang, now, choose, history_of=history_of, context=context).decide()


def places_for_later(
    state: State,
    gang: KnownGang,
    now: float,
    choose: Choose,
    *,
    history_of: Histories = lambda _: NO_HISTORY,
    context: DecisionContext = NO_CONTEXT,
) -> GangPlan | None:
    """Return places for members without one, also for those to come, beside the members that stand; as many as fit.

    Arguments as of ``decide_gang``. None if there are none, or if there is no room for any.
    """
    return _GangDecider(state, gang, now, choose, history_of=history_of, context=context).places_for_later()


def refusal_text(terms: GangTerms, refusal: Refusal[TriedDomains], now: float | None = None) -> str:
    """Return the text of a gang's refusal at ``now`` (epoch seconds)."""
    return f"gang {terms.key}: {render_gang(refusal, now=now)}"


class _GangDecider:
    """Makes one decision about one gang."""

    def __init__(
        self,
        state: State,
        gang: KnownGang,
        now: float,
        choose: Choose,
        *,
        history_of: Histories,
        context: DecisionContext,
    ):
        self._state = state
        self._gang = gang
        self._now = now
        self._choose = choose
        self._history_of = history_of
        self._restrictions = context.restrictions
        self._found = GangProgress(state, gang, now, history_of, context)
        self._standing = [(key, member) for key, member in self._found.standing if member.node]

    def decide(self) -> GangDecision:
        """Decide about all members; see ``decide_gang``."""
        found, terms = self._found, self._gang.terms
        if found.evaluating:
            return self._decision({}, after=EVALUATION_PAUSE_SECONDS)
        if not found.is_ours and (not isinstance(terms, GangTerms) or self._missing(terms) is None):
            # Its pods have the gate for claims of other drivers. Their groups are not ours to judge.
            return self._decision(dict.fromkeys(found.open, LetGo()))
        if not isinstance(terms, GangTerms):
            faults = "; ".join(f"{fault.field}: {fault.message}" for fault in terms)
            return self._give_up(Wait(Reason.GANG_INVALID, f"gang {self._gang.key}: {faults}"))
        problem = found.shared_by_too_many(self._gang.key) or (None if found.started else self._missing(terms))
        if problem:
            return self._give_up(problem)
        if leaving := found.leaving(f"gang {terms.key}: taken back with the other members"):
            return self._decision(leaving)
        if not found.open:
            return replace(self._decision(self._found.finished()), started=True)
        later = () if found.started or self._stands(terms) else self._later()
        if isinstance(later, Wait):
            evaluating = later.reason is Reason.EVALUATING
            return (
                self._decision({}, after=later.after) if evaluating else self._give_up(self._incomplete(later.message))
            )
        question = self._question(terms, later)
        answer = self._ask(question)
        decision = self._planned(terms, answer) if isinstance(answer, GangPlan) else self._refused(terms, answer)
        return replace(decision, asked=question)

    def places_for_later(self) -> GangPlan | None:
        """Find places for members to come; see ``places_for_later``."""
        terms, later = self._gang.terms, self._later()
        if not isinstance(terms, GangTerms) or not self._standing or isinstance(later, Wait):
            return None
        question = replace(
            self._question(terms, later),
            minimum=len(self._standing) + 1,
            task_minimums=(),
            sub_groups=self._sub_groups(terms, starts=False),
            starts=False,
        )
        answer = self._ask(question) if question.members else None
        return answer if isinstance(answer, GangPlan) else None

    def _later(self) -> Sequence[Member] | Wait:
        priority = max((pod.priority for pod in self._found.pods.values()), default=0)
        return later_members(self._state, self._gang, self._gang.later, self._restrictions, priority)

    def _ask(self, question: Gang) -> GangPlan | Refusal[TriedDomains]:
        open_pods = self._found.open
        awaits = any(member.demand.other_drivers_claims for member in question.members)
        with hold_expected_foreign_use(self._state, open_pods) if awaits else nullcontext():
            return self._choose(question)

    # Whether the gang can start

    def _needed(self, terms: GangTerms) -> int:
        """Return how many of the members that exist must have a place."""
        least, made = terms.minimum - self._gang.ended, self._gang.coming
        return max(1, least if made is None else min(least, len(self._found.pods) + made.missing))

    def _missing(self, terms: GangTerms) -> Wait | None:
        """Return why a gang that has not started has to wait for members; None if it need not."""
        found, unready = self._found, self._found.unready
        if terms.awaited and found.pods:
            return self._incomplete(f"gang {terms.key}: {terms.awaited}")
        present = len(found.pods) - len(unready) + self._gang.ended
        lacking = self._gang.lacking({member.pod for member in self._gang.members if found.is_ready(member.pod)})
        made = self._gang.coming
        complete = made.missing == 0 if made else terms.size is not None and present >= terms.size
        is_all = not unready and not lacking and complete
        if is_all or not found.pods:
            return None
        incomplete = lacking or (terms.starts_whole and unready)
        if present >= terms.minimum and not incomplete:
            quiet = self._since + QUIET_SECONDS - self._now
            text = f"gang {terms.key}: waits for more members"
            return Wait(Reason.GANG_INCOMPLETE, text, report=False, after=quiet) if quiet > 0 else None
        exist = len(found.pods) + self._gang.ended
        text = f"gang {terms.key}: {exist} of {terms.size or terms.minimum} members exist{lacking}"
        if made and made.missing:
            text += f", and {made.missing} more have to exist before the first ones start"
        problems = [f"pod {key}: {one.message}" for key, one in unready.items() if isinstance(one, Wait)]
        if unready:
            text += f", and {len(unready)} of these cannot be placed: {'; '.join(problems[:3])}"
        return self._incomplete(text)

    def _incomplete(self, text: str) -> Wait:
        """Return a wait for members. It is not reported while the gang is most likely being made."""
        remaining = self._since + INCOMPLETE_SECONDS - self._now
        return Wait(Reason.GANG_INCOMPLETE, text, report=remaining <= 0, after=remaining if remaining > 0 else None)

    @property
    def _since(self) -> float:
        """Time at which the last member appeared, or lost its last gate of others (seconds)."""
        return max(map(self._state.servable_since, self._found.pods.values()))

    def _stands(self, terms: GangTerms) -> bool:
        """Return whether as many members have their place as have to start."""
        placed = {key for key, _ in self._standing} - self._found.halves()
        return len(placed) >= self._needed(terms) and not self._gang.lacking(placed)

    def _task_minimums(self, terms: GangTerms) -> TaskMinimums:
        """Return how many members of each task with a minimum must have a place."""
        return tuple((task, least - self._gang.ended_of_tasks.get(task, 0)) for task, least in terms.task_minimums)

    # Asking

    def _question(self, terms: GangTerms, later: Sequence[Member]) -> Gang:
        found, standing = self._found, self._standing
        members = {one.pod: (one.rank, one.leader, one.task, one.sub_group) for one in self._gang.members}
        needed = self._needed(terms)
        task_minimums: TaskMinimums = ()
        starts = not (found.running or self._stands(terms))
        if not starts:
            # Any member more is welcome.
            minimum = len(standing) + 1
        elif terms.starts_whole:
            minimum = len(standing) + len(found.open)
        else:
            minimum, task_minimums = needed + len(later), self._task_minimums(terms)
        is_held, servable_since = self._state.pods.openings.is_held, self._state.servable_since
        ages = sorted(self._now if is_held(pod) else servable_since(pod) for pod in found.pods.values())
        complete_since = ages[min(needed, len(ages)) - 1]
        return Gang(
            key=terms.key,
            uid=terms.uid,
            members=(*(Member(self._demand(key), *members[key]) for key in found.open), *later),
            standing=tuple([Standing(key, member.placed, *members[key]) for key, member in standing]),
            minimum=minimum,
            task_minimums=task_minimums,
            sub_groups=self._sub_groups(terms, starts=starts),
            succeeded=tuple(sorted(self._gang.ended_of_sub_groups.items())),
            starts=starts,
            levels=terms.levels,
            constraints=terms.constraints,
            policy=terms.policy,
            elapsed=max(0.0, self._now - complete_since),
            # Before the start, members that stand are taken back if the others cannot be beside them.
            moves=terms.moves and found.running,
        )

    def _sub_groups(self, terms: GangTerms, *, starts: bool) -> tuple[SubGroups, ...]:
        sizes = [1 if terms.starts_whole else one.size for one in terms.sub_groups]
        return tuple(
            [SubGroups(size, one.minimum if starts else 0) for size, one in zip(sizes, terms.sub_groups, strict=True)]
        )

    def _demand(self, key: str) -> PodDemand:
        return question_about(self._state, self._found.open[key], self._now, self._history_of(key), self._restrictions)

    # Answers

    def _planned(self, terms: GangTerms, plan: GangPlan) -> GangDecision:
        """Decide from a plan that has a place for at least as many members as must have one."""
        found = self._found
        halves = found.halves([one.pod for one in plan.placements])
        own = (one for one in plan.placements if one.pod in found.open and one.pod not in halves)
        placed = places(self._state, found.open, own)
        starts = not (found.running or self._stands(terms))
        to_come = [one for one in plan.placements if one.pod not in found.pods]
        beyond = self._beyond_quota(placed, to_come, together=starts or bool(terms.sub_groups))
        if beyond and starts:
            return self._give_up(next(iter(beyond.values())))
        placed = {key: one for key, one in placed.items() if key not in beyond}
        left = [key for key in found.open if key not in placed and key not in beyond]
        count = f"{len(placed) + len(self._standing)} of {terms.size or len(found.pods)} members placed"
        more = "more, or for no whole sub-group," if terms.sub_groups else "more"
        wait = Wait(Reason.UNALLOCATABLE, f"gang {terms.key}: {count}; no room for {more} in {plan.domain}")
        decisions: dict[str, Decision] = {**dict.fromkeys(left, wait), **beyond}
        first = {key: self._first_phase(key, one) for key, one in placed.items() if one.allocations}
        # In the first phase no gate is removed, of the gang or of a sub-group.
        carried = first if first and not found.started else self._one_by_one(placed, first)
        return replace(self._decision(decisions | carried, left), plan=plan, started=True)

    def _beyond_quota(
        self, placed: Mapping[str, PlacePod], to_come: Iterable[Placement], *, together: bool
    ) -> Mapping[str, Wait]:
        """Return the members that the quotas of the namespace do not allow to be placed, each with the reason.

        Args:
            placed: the decisions about members that have a place in the plan, in order.
            to_come: the places of members that do not exist yet.
            together: whether all are allowed or none; if not, the first ones may be, and members to come do not count.
        """
        state, gang = self._state, self._gang.key
        namespace, subject = gang.partition("/")[0], f"gang {gang}"
        if not state.quotas.limits(namespace):
            return {}
        wanted = {key: [allocation for _, allocation in one.allocations] for key, one in placed.items()}
        if together:
            given = [allocation for one in to_come for allocation in one.allocations]
            given += [allocation for own in wanted.values() for allocation in own]
            wait = quota_wait(state, namespace, given, gang, subject)
            return dict.fromkeys(placed, wait) if wait else {}
        given, beyond = [], {}
        for key, own in wanted.items():
            if own and (wait := quota_wait(state, namespace, [*given, *own], gang, subject)):
                beyond[key] = wait
            else:
                given += own
        return beyond

    def _one_by_one(self, placed: Mapping[str, PlacePod], first: Mapping[str, PlacePod]) -> dict[str, Decision]:
        """Let members of a gang that has started go at once, apart from those of a sub-group that begins."""
        begin = {self._found.sub_groups[key] for key in first} - self._found.begun
        held = {key for key in (*placed, *self._found.full) if self._found.sub_groups[key] in begin}
        now = {**placed, **self._found.finished(placed)}
        return {key: first[key] if key in held else one for key, one in now.items() if key in first or key not in held}

    def _first_phase(self, key: str, decision: PlacePod) -> PlacePod:
        """Return the decision without letting the member go: its gate stays."""
        return replace(decision, admit=self._state.names.gate not in self._found.open[key].pod.gates)

    def _refused(self, terms: GangTerms, refusal: Refusal[TriedDomains]) -> GangDecision:
        """Decide when no domain takes as many members as must be placed."""
        found = self._found
        if refusal.faults:
            faulty = tuple(dict.fromkeys(fault.key for fault in refusal.faults))
            return self._give_up(Wait(Reason.INVALID_CLAIM, listed([str(fault) for fault in refusal.faults]), faulty))
        text = refusal_text(terms, refusal, self._now) + self._in_use(refusal.why.lacking)
        why = refusal.why
        nowhere = self._lacking(why.nowhere) if why.decided and why.nowhere in found.open else None
        wait = Wait(Reason.UNALLOCATABLE, text, nowhere=nowhere)
        left = list(found.open)
        if found.running or self._stands(terms):
            decisions: dict[str, Decision] = dict.fromkeys(left, wait)
            decision = replace(self._decision(decisions | self._found.finished(), left), started=True)
        else:
            decision = self._give_up(wait, left)
        after = min((seconds for seconds in (refusal.after, decision.after) if seconds is not None), default=None)
        return replace(decision, after=after, decided=refusal.why.decided, refusal=refusal)

    def _in_use(self, lacking: Sequence[str]) -> str:
        """Return text about claims that hold devices for a member. Claims of other namespaces are not named.

        Args:
            lacking: the claims that the devices are for, if it is known what is missing.
        """
        if known := [self._state.claims[key].claim for key in lacking if key in self._state.claims]:
            return in_use(self._state, known, known[0].namespace)
        for pod in self._found.open.values():
            if pod.unallocated:
                return in_use(self._state, [record.claim for record in pod.unallocated], pod.pod.namespace)
        return ""

    # Decisions about all members

    def _give_up(self, wait: Wait, left: Iterable[str] = ()) -> GangDecision:
        """Return decisions that hold nothing for a gang that cannot start. Members that run go on."""
        gated = (*self._found.open, *self._found.full)
        return self._decision(dict.fromkeys(gated, wait) | self._found.taken_back(wait.message), left, wait.after)

    def _decision(
        self, members: Mapping[str, Decision], left: Iterable[str] = (), after: float | None = None
    ) -> GangDecision:
        """Combine the decisions about ``members`` with those that hold for any pod, in the order of ranks.

        Args:
            left: members for which there is no room.
        """
        decisions = {**self._found.own, **members}
        gate, ranked = self._state.names.gate, [member.pod for member in self._gang.members]

        def comes_last(key: str) -> bool:
            pod = self._found.pods.get(key)
            return pod is not None and gate not in pod.gates and bool(getattr(decisions[key], "allocations", ()))

        keys = sorted((key for key in ranked if key in decisions), key=comes_last)
        by_group: dict[Hashable, PodRefusal] = {}
        for one in map(self._lacking, left):
            by_group.setdefault(one.why.group, one)
        # Another pod of the shape may find room where a whole gang does not.
        lacking = [replace(one, why=replace(one.why, own=one.subject)) for one in by_group.values()]
        waits = [one.after for one in lacking if one.after is not None]
        return GangDecision(
            {key: decisions[key] for key in keys},
            tuple(lacking),
            min((seconds for seconds in (after, *waits) if seconds is not None), default=None),
        )

    def _lacking(self, key: str) -> PodRefusal:
        pod, history = self._found.open[key], self._history_of(key)
        refused = pod.refused(self._state, history, self._now)
        reachable = reachable_nodes(self._state, pod.records)
        claims = tuple(record.claim.key for record in (*pod.unallocated, *pod.other_drivers_claims(self._state)))
        after = max(0.0, history.last_resort_at - self._now) if refused else None
        own = reachable is not None or bool(refused)
        # A node may help that takes only members that come later.
        lenient = self._gang.later > 0 and not self._found.started
        question = PodQuestion(
            claims,
            shape=pod.shape(self._state),
            own=key if own else "",
            refused=refused,
            held=self._restrictions.held_from(key),
            tied_by=pod.tied_by(),
            lenient=lenient,
        )
        return Refusal(key, question, after=after)


def places(state: State, members: Mapping[str, NeedsDevices], placements: Iterable[Placement]) -> dict[str, PlacePod]:
    """Return the placement of each member, gated members first.

    The first of the members that share a claim gets it for all of them.
    """
    gate = state.names.gate
    chosen = sorted(placements, key=lambda one: gate not in members[one.pod].pod.gates)
    users: dict[str, dict[Consumer, None]] = {}
    for one in chosen:
        found = members[one.pod]
        for record in found.unallocated:
            consumer = state.consumer(found.pod, record.claim.key)
            users.setdefault(record.claim.key, {})[consumer] = None
    decisions: dict[str, PlacePod] = {}
    given: set[str] = set()
    for one in chosen:
        decision = place(state, members[one.pod], one)
        own = tuple((key, value) for key, value in decision.allocations if key not in given)
        sharers = tuple((key, tuple(users[key])[1:]) for key, _ in own if len(users[key]) > 1)
        given |= {key for key, _ in own}
        decisions[one.pod] = replace(decision, allocations=own, sharers=sharers)
    return decisions
