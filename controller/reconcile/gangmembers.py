"""The members of a gang: the progress of those that exist, and the demands of those to come. Pure.

Room is found for all members at once. The requests of those to come are in the JobSet that makes them, and in the
ResourceClaimTemplates that it names. Changes by admission, such as the overhead of a runtime class, are not known.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final

from controller.allocation import CompiledRequest
from controller.gangs import Member, SubGroup, natural_sort_key
from controller.membership import Coming, GangTerms, LaterPart, Part, PodTemplate, sub_group_of
from controller.placement import Placed, PodDemand
from controller.reconcile.decisions import Decision, Idle, PlacePod, Reason, Release, TakeBack, Wait
from controller.reconcile.demand import HasDevices, NeedsDevices, NodeRestrictions, reachable_nodes
from controller.reconcile.history import PATIENCE_SECONDS, PlacementHistory
from controller.reconcile.lettinggo import MAX_CONSUMERS, finish
from controller.reconcile.podclaims import (
    alignments_among,
    claim_of_template,
    faults_of,
    is_reserved,
    measured_by_driver,
    node_of,
    reserved_only_for,
    wait_for_template,
)
from controller.reconcile.pods import DecisionContext, allocate, examine
from controller.state import NEVER, ClaimRecord, PodView, State
from driver.errors import Fault, InvalidInput
from driver.model import Claim

Histories = Callable[[str], PlacementHistory]
"""Returns the history of a pod (key)."""


@dataclass(frozen=True, slots=True)
class KnownMember:
    """A pod of a gang."""

    pod: str
    """Key."""
    rank: int = 0
    leader: bool = False
    task: str = ""
    sub_group: SubGroup | None = None


@dataclass(frozen=True, slots=True)
class KnownGang:
    """A gang as the state knows it.

    Attributes:
        key: ``namespace/name``.
        terms: the terms on which it starts, or the faults of these.
        members: the pods that exist, in the order of ranks.
        ended: how many members have succeeded.
        ended_of_tasks: how many members have succeeded of each task that has a minimum, or counts for the quorum.
        ended_of_sub_groups: how many members have succeeded of each sub-group.
        coming: the members to come, if they are made one part after another.
    """

    key: str
    terms: GangTerms | tuple[Fault, ...]
    members: tuple[KnownMember, ...]
    ended: int = 0
    ended_of_tasks: Mapping[str, int] = field(default_factory=dict)
    ended_of_sub_groups: Mapping[SubGroup, int] = field(default_factory=dict)
    coming: Coming | None = None

    @property
    def later(self) -> int:
        """The number of members that are made later and must have room now, at most up to the minimum."""
        if self.coming is None or not isinstance(self.terms, GangTerms):
            return 0
        return max(0, min(self.coming.count, self.terms.minimum - self.ended - len(self.members)))

    def lacking(self, pods: Collection[str]) -> str:
        """Return the tasks, groups and sub-groups of which too few members are in ``pods`` or succeeded, as text.

        "" if there are enough of each.
        """
        if not isinstance(self.terms, GangTerms):
            return ""
        members = [member for member in self.members if member.pod in pods]
        tasks = Counter(self.ended_of_tasks)
        tasks.update(member.task for member in members)
        minimums, quorum = self.terms.task_minimums, self.terms.quorum
        few = [f", {tasks[task]} of {least} of task {task}" for task, least in minimums if tasks[task] < least]
        few += [f", {text}"] if quorum and (text := quorum.lacking(tasks)) else []
        there = Counter(dict(self.ended_of_sub_groups))
        there.update(member.sub_group for member in members if member.sub_group is not None)
        for number, policy in enumerate(self.terms.sub_groups):
            whole = sum(one[0] == number and count >= policy.size for one, count in there.items())
            if whole < policy.minimum:
                few.append(f", in {whole} of {policy.minimum} whole sub-groups of {policy.size}")
        return "".join(few)


def known_gang(state: State, key: str) -> KnownGang:
    """Return the gang ``key`` as the state knows it; without members if it is gone."""
    gangs = state.gangs
    pods = sorted(gangs.members(key), key=lambda pod: (not gangs.leads(pod), gangs.rank(pod), natural_sort_key(pod)))
    terms = gangs.terms(key) if pods else ()
    tasks, policies = (_counted_tasks(terms), terms.sub_groups) if isinstance(terms, GangTerms) else ((), ())
    ended = gangs.succeeded_of_tasks(key, tasks) if tasks else {}
    of_sub_groups = gangs.succeeded_of_sub_groups(key, policies) if policies else {}

    def member(pod: str) -> KnownMember:
        sub_group = sub_group_of(policies, dict(state.pods[pod].needs.pod.labels)) if policies else None
        return KnownMember(pod, gangs.rank(pod), gangs.leads(pod), gangs.task(pod), sub_group)

    made = gangs.coming(key)
    if made is not None and policies:
        message = (
            "not supported with a JobSet that makes its Jobs one after another (startupPolicy, dependsOn); remove it"
        )
        terms = (Fault("gang.subGroup", message),)
    return KnownGang(
        key,
        terms,
        tuple(map(member, pods)),
        ended=gangs.succeeded(key),
        ended_of_tasks=ended,
        ended_of_sub_groups=of_sub_groups,
        coming=made,
    )


def _counted_tasks(terms: GangTerms) -> tuple[str, ...]:
    """Return the tasks whose members are counted."""
    return (*(task for task, _ in terms.task_minimums), *(terms.quorum.tasks if terms.quorum else ()))


# Members to come

MOST_LATER: Final = 1000
"""Members that room is found for before they exist. A JobSet of a few lines can promise any number of them."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The claims that the pods of a part will have: each with its entry in the pod template."""

    ours: Sequence[tuple[str, ClaimRecord]]
    other_drivers: Sequence[tuple[str, ClaimRecord]]
    held: Sequence[tuple[str, ClaimRecord]]
    """Claims that are allocated already."""


def later_members(
    state: State, gang: KnownGang, most: int, restrictions: NodeRestrictions, priority: int
) -> Sequence[Member] | Wait:
    """Return the members to come, in the order of ranks; a wait if their claims are not known yet.

    Members are left out if their claims are faulty, so that they could not start whatever room there is, and if this
    program may not read their templates.

    Args:
        most: the most members that are returned.
        restrictions: the nodes that are held back from the gang.
        priority: of the members that exist.
    """
    found: list[Member] = []
    taken = {member.rank for member in gang.members}
    for later in gang.coming.later if gang.coming else ():
        left = min(most, MOST_LATER) - len(found)
        if left <= 0 or later.part.template is None:
            break
        asked = _asked_by(state, gang, later.part, later.part.template)
        if isinstance(asked, Wait):
            return asked
        if asked is not None:
            reachable = reachable_nodes(state, [record for _, record in asked.held])
            needs = replace(later.part.template.needs, priority=priority)
            for rank, key in islice(_places(gang, later, taken), min(left, later.count)):
                other_claims = [_made(key, entry, one) for entry, one in asked.other_drivers]
                demand = PodDemand(
                    key,
                    needs,
                    _aligned(state, key, asked),
                    reachable,
                    frozenset(restrictions.held),
                    other_drivers_claims=tuple(other_claims),
                )
                found.append(Member(demand, rank, task=later.part.name))
    return found


def _places(gang: KnownGang, later: LaterPart, taken: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the ranks that no member has, each with a key that no pod can have."""
    name = gang.key.replace("/JobSet/", "/")
    for rank, job, index in later.part.ranks():
        if rank not in taken:
            yield rank, f"{name}-{later.part.name}-{job}-{index} (to come)"


def _made(pod: str, entry: str, record: ClaimRecord) -> Claim:
    """Return the claim of a pod. One that is made from a template, which has no uid, is made for this pod."""
    claim = record.claim
    return claim if claim.uid else replace(claim, name=f"{pod} {entry}", uid=f"{pod} {entry}")


def _aligned(state: State, pod: str, asked: _Asked) -> tuple[Claim, ...]:
    """Return the claims of ours of a pod to come, with what they must have in common.

    Raises:
        InvalidInput: an alignment names a claim that it cannot mean.
    """
    made = {entry: _made(pod, entry, record) for entry, record in (*asked.ours, *asked.other_drivers, *asked.held)}
    others = [made[entry] for entry, _ in asked.other_drivers]
    found = alignments_among(state, made, others)
    claims = [made[entry] for entry, _ in asked.ours]
    return tuple(replace(claim, aligned=found[claim.uid]) if claim.uid in found else claim for claim in claims)


def _asked_by(state: State, gang: KnownGang, part: Part, template: PodTemplate) -> _Asked | Wait | None:
    """Return the claims of the pods of the part; None if these cannot start, or their claims cannot be known."""
    namespace, known, missing = gang.key.partition("/")[0], list[tuple[str, ClaimRecord]](), list[str]()
    for use in template.claims:
        if use.template and not state.templates.readable:
            return None
        kind, key = ("ResourceClaim", use.claim) if use.claim else ("ResourceClaimTemplate", use.template)
        named = f"{namespace}/{key}"
        record = state.claims.get(named) if use.claim else claim_of_template(state, named)
        if any(record is one for _, one in known) and use.claim:
            continue
        if record is None and use.template and wait_for_template(state, namespace, key):
            return None
        if record is None:
            missing.append(f"{kind} {namespace}/{key}")
        else:
            known.append((use.entry, record))
    if missing:
        text = f"{', '.join(missing)}: does not exist; members of {part.name} ask for it, which start later; create it"
        return Wait(Reason.GANG_INCOMPLETE, f"gang {gang.key}: {text}")
    split = measured_by_driver(state, [record for _, record in known])
    if isinstance(split, Wait):
        return split
    ours, others = ({id(record) for record in some} for some in (split.ours, split.others))
    claims = [record.claim for _, record in known if record.claim.allocation is None]
    if split.problems or faults_of(state, split.ours) or not isinstance(state.devices.compile(claims), CompiledRequest):
        return None
    asked = _Asked(
        [one for one in known if id(one[1]) in ours and one[1].claim.allocation is None],
        [one for one in known if id(one[1]) in others and state.devices.publishes(one[1].claim)],
        [one for one in known if one[1].claim.allocation is not None],
    )
    try:
        _aligned(state, "", asked)
    except InvalidInput:
        return None
    return asked


# The progress of those that exist


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """A member that has a node, and has devices there unless it needs none."""

    pod: PodView
    held: tuple[ClaimRecord, ...]
    reserved: tuple[ClaimRecord, ...]
    """Those of ``held`` that are reserved for the member, or for its PodGroup."""

    @property
    def node(self) -> str:
        """The member's node; "" if its devices can be reached from several nodes."""
        return self.pod.node_name or node_of(self.held) or self.pod.nominated

    @property
    def placed(self) -> Placed:
        """The member as the search for a domain takes it."""
        return Placed(self.node, tuple(record.claim.allocation for record in self.held if record.claim.allocation))


class GangProgress:
    """The members that exist and do not end, sorted by their progress. Each dict has keys of pods, in rank order.

    Attributes:
        open: members that need a place.
        full: gated members whose claims are all allocated.
        let_go: members without our gate that have a place, and are not bound.
        bound: members that are bound.
        own: decisions about the others, as about any pod.
        sub_groups: the sub-group of each member, also of those that end.
    """

    def __init__(
        self,
        state: State,
        gang: KnownGang,
        now: float,
        history_of: Histories,
        context: DecisionContext,
    ):
        self._context = context
        self._state = state
        self._now = now
        self._history_of = history_of
        self._gang = gang
        self.sub_groups = {member.pod: member.sub_group for member in gang.members}
        self.pods: dict[str, PodView] = {}
        self.open: dict[str, NeedsDevices] = {}
        self.full: dict[str, HasDevices] = {}
        self.let_go: dict[str, PlacedMember] = {}
        self.bound: dict[str, PlacedMember] = {}
        self.own: dict[str, Decision] = {}
        for member in gang.members:
            self._add(member.pod)

    def _add(self, key: str) -> None:
        history, pod = self._history_of(key), self._state.pods.get(key)
        found = examine(self._state, key, self._now, history, self._context.max_wait, in_gang=True)
        if pod is None or pod.terminal or pod.deleting:
            self.own[key] = Idle()
            return
        self.pods[key] = pod
        if isinstance(found, HasDevices):
            self.full[key] = found
        elif isinstance(found, NeedsDevices) and not pod.node_name:
            self.open[key] = found
        else:
            if isinstance(found, NeedsDevices):
                found = allocate(self._state, found, self._now, history, self._context)
            self.own[key] = found
            member = self._placed(pod)
            if pod.node_name:
                self.bound[key] = member
            elif self._state.names.gate not in pod.gates and (member.held or not pod.references):
                self.let_go[key] = member

    def _placed(self, pod: PodView) -> PlacedMember:
        held = self.held_by(pod)
        return PlacedMember(pod, held, tuple(one for one in held if is_reserved(self._state, one.claim, pod)))

    def held_by(self, pod: PodView) -> tuple[ClaimRecord, ...]:
        """Return the pod's claims that hold devices of ours."""
        records = (self._state.claims.get(key) for key in pod.claim_keys)
        return tuple(record for record in records if record is not None and self._state.holds_ours(record.claim))

    @property
    def evaluating(self) -> bool:
        """True while selectors of members are being evaluated, so that their requests are not known yet."""
        return any(isinstance(one, Wait) and one.reason is Reason.EVALUATING for one in self.own.values())

    @property
    def is_ours(self) -> bool:
        """True if a member needs devices of ours, has our gang label, or cannot be judged yet."""
        if self.full or any(pod.unallocated for pod in self.open.values()):
            return True
        if any(member.held for _, member in self.standing) or any(isinstance(one, Wait) for one in self.own.values()):
            return True
        return any(pod.gang is not None and pod.gang.label is not None for pod in self.pods.values())

    @property
    def running(self) -> bool:
        """True if a member with devices is bound."""
        return any(member.held for member in self.bound.values())

    @property
    def started(self) -> bool:
        """True if a member with devices has lost its gate, so that there was a place for each member."""
        return self.running or any(member.held for member in self.let_go.values())

    @cached_property
    def begun(self) -> AbstractSet[SubGroup | None]:
        """The sub-groups with a member that is let go or bound; and None, for members of no sub-group."""
        return {None, *(self.sub_groups[key] for key in (*self.let_go, *self.bound))}

    def halves(self, more: Iterable[str] = ()) -> set[str]:
        """Return the members with devices of sub-groups that have not begun and are not whole.

        Args:
            more: members that get their devices now; they count.
        """
        terms = self._gang.terms
        if not isinstance(terms, GangTerms) or terms.starts_whole:
            return set()
        there = {key: one for key in (*more, *self.full) if (one := self.sub_groups.get(key)) not in self.begun and one}
        count = Counter(dict(self._gang.ended_of_sub_groups)) + Counter(there.values())
        return {key for key, one in there.items() if count[one] < terms.sub_groups[one[0]].size}

    @property
    def standing(self) -> Iterator[tuple[str, PlacedMember]]:
        """The members that have a place."""
        for key, full in self.full.items():
            yield key, self._placed(full.pod)
        yield from self.let_go.items()
        yield from self.bound.items()

    @property
    def unready(self) -> dict[str, Decision]:
        """The decisions about members that cannot be placed, by key."""
        return {key: self.own[key] for key in self.pods if not self.is_ready(key)}

    def is_ready(self, pod: str) -> bool:
        """Return whether the member has a place or can be given one."""
        return any(pod in some for some in (self.open, self.full, self.let_go, self.bound))

    def shared_by_too_many(self, gang: str) -> Wait | None:
        """Return a wait if a claim has more users than it can be reserved for: they can never start together.

        A PodGroup counts as one user.
        """
        users: dict[str, set[str]] = {}
        for pod in self.pods.values():
            for key in pod.claim_keys:
                users.setdefault(key, set()).add(self._state.consumer(pod, key).uid)
        full = [key for key, uids in users.items() if len(uids) > MAX_CONSUMERS]
        if not full:
            return None
        remedy = "use several claims, or one in spec.resourceClaims of their PodGroup (scheduling.k8s.io)"
        text = f"ResourceClaim {', '.join(full)}: shared by more than {MAX_CONSUMERS} members; {remedy}"
        return Wait(Reason.CLAIM_FULL, f"gang {gang}: {text}", tuple(full))

    # Letting go, and taking back

    def finished(self, more: Iterable[str] = ()) -> dict[str, Decision]:
        """Return the decisions of the second phase: remove the gates of members that have all their devices.

        A gang that has not started lets all of them go, or none. So does each sub-group.

        Args:
            more: members that get their place now; they count.
        """
        halves = self.halves(more)
        finished = {key: finish(self._state, full) for key, full in self.full.items() if key not in halves}
        hindered = {key: one for key, one in finished.items() if not isinstance(one, PlacePod)}
        if self.started or not hindered:
            text = f"gang {self._gang.key}: taken back, because its sub-group is not whole"
            return {**finished, **self.taken_back(text, halves)}
        waits = [one for one in hindered.values() if isinstance(one, Wait)]
        return self.taken_back(waits[0].message) if waits else dict(hindered)

    def taken_back(self, message: str, among: Collection[str] | None = None) -> dict[str, Decision]:
        """Return decisions that take back all that is held by members that have not started.

        Gated members lose everything at once. Those without a gate lose it in two steps, and only while no member runs.

        Args:
            among: which members; None for all.
        """
        decisions: dict[str, Decision] = {}
        pods = {key: pod for key, pod in self.pods.items() if among is None or key in among}
        gated = {key: pod for key, pod in pods.items() if self._state.names.gate in pod.gates}
        taken: set[str] = set()
        for key, pod in pods.items():
            if key in gated:
                held = [one for one in self.held_by(pod) if one.claim.key not in taken]
                own = [one for one in held if reserved_only_for(self._state, one.claim, gated.values())]
                taken |= {record.claim.key for record in own}
                if own:
                    decisions[key] = TakeBack(_keys(own), node_of(own), message)
            elif key in self.let_go and self.let_go[key].held and not self.running:
                decisions[key] = self._released(key, message)
        return decisions

    def leaving(self, message: str) -> dict[str, Decision]:
        """Return decisions that finish taking back devices of members whose reservations were dropped."""
        released = {
            key: self._released(key, message)
            for key, member in self.let_go.items()
            if member.held and self._history_of(key).released is not None and not member.reserved
        }
        # A member that kube-scheduler refused takes its own course.
        own = {key: self.own[key] for key in released if isinstance(self.own[key], Wait | TakeBack)}
        return {} if self.running else released | own

    def _released(self, key: str, message: str) -> Decision:
        """Return the next step of taking back the devices of a member that kube-scheduler may be binding."""
        member, history = self.let_go[key], self._history_of(key)
        held, node = member.held, member.node
        stamps = (record.claim.allocation.timestamp for record in held if record.claim.allocation)
        patience = max(map(self._state.at, stamps), default=NEVER) + PATIENCE_SECONDS - self._now
        if patience > 0:
            return Wait(Reason.REFUSED, message, report=False, after=patience)
        reserved = member.reserved
        if reserved or history.released is None:
            return Release(_keys(held), node)
        if (remaining := history.until_visible(self._now)) > 0:
            return Wait(Reason.REFUSED, message, report=False, after=remaining)
        unused = [record for record in held if not record.claim.reserved_for]
        return TakeBack(_keys(unused), node, message) if unused else Idle()


def _keys(records: Sequence[ClaimRecord]) -> tuple[str, ...]:
    return tuple(record.claim.key for record in records)
