"""Groups pods into gangs, and finds the terms on which each starts. Pure."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from controller.gangs import SubGroup
from controller.membership import (
    NO_CONFIG,
    Coming,
    ConfiguredGang,
    GangTerms,
    GroupObjects,
    Membership,
    MembershipInput,
    MemberTerms,
    Source,
    SubGroupPolicy,
    agreed,
    coming,
    config_of_claim,
    config_of_pod,
    dependencies_of,
    membership_of,
    sub_group_of,
)
from controller.state.changes import Changes
from controller.state.claims import ClaimRecord
from controller.state.pods import PodView
from driver.bounded import BoundedCache
from driver.errors import Fault, InvalidInput
from driver.names import Names
from driver.parameters import PlacementConfig, parameters_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST_REMEMBERED: Final = 1 << 12


@dataclass(slots=True)
class _Gang:
    """The knowledge about one gang."""

    members: dict[str, None] = field(default_factory=dict)
    said: dict[MemberTerms, dict[str, None]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    """The number of members of each run."""
    order: tuple[str, ...] | None = None
    terms: GangTerms | tuple[Fault, ...] | None = None
    coming: tuple[Coming | None] | None = None


class Gangs:
    """All gangs, by key (``namespace/name``). They are worked out from pods, claims and group objects.

    A pod that has succeeded is no member any more, but counts: see ``succeeded``.
    """

    def __init__(self, claims: Mapping[str, ClaimRecord], names: Names):
        self.objects = GroupObjects()
        self._claims = claims
        self._names = names
        self._memberships: dict[str, Membership] = {}
        self._gangs: dict[str, _Gang] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._depends: dict[str, tuple[str, ...]] = {}
        self._pods: dict[str, PodView] = {}
        """The pods that may be in a gang."""
        self._succeeded: dict[str, dict[str, PodView]] = {}
        """Pods that have succeeded by key, by run."""
        self._run_of: dict[str, str] = {}
        """The run of each of them."""
        self._gangs_of_run: dict[str, dict[str, None]] = {}
        self._asked: BoundedCache[str, ConfiguredGang] = BoundedCache(_MOST_REMEMBERED)

    # Questions

    def gang_of(self, pod: str) -> str:
        """Return the gang of the pod; "" if it is in none."""
        membership = self._memberships.get(pod)
        return membership.gang if membership else ""

    def faults(self, pod: str) -> tuple[Fault, ...]:
        """Return why the pod can be in no gang although it asks for one; its author must act. Empty if all is well."""
        membership = self._memberships.get(pod)
        return membership.terms.problems if membership and not membership.gang else ()

    def rank(self, pod: str) -> int:
        """Return the pod's place among the members; pods of equal rank are in the natural order of their keys."""
        membership = self._memberships.get(pod)
        return membership.rank if membership else 0

    def leads(self, pod: str) -> bool:
        """Return whether the pod is the leader of its gang."""
        membership = self._memberships.get(pod)
        return membership is not None and membership.leader

    def task(self, pod: str) -> str:
        """Return the task of its gang that the pod belongs to; "" for none."""
        membership = self._memberships.get(pod)
        return membership.task if membership else ""

    def members(self, gang: str) -> Sequence[str]:
        """Return the keys of the pods that are in the gang and have not ended, sorted."""
        record = self._gangs.get(gang)
        if record is None:
            return ()
        if record.order is None:
            record.order = tuple(sorted(record.members))
        return record.order

    def terms(self, gang: str) -> GangTerms | tuple[Fault, ...]:
        """Return the terms on which the gang starts, or the faults because of which it cannot start.

        Raises:
            KeyError: there is no such gang.
        """
        record = self._gangs[gang]
        if record.terms is None:
            record.terms = agreed(gang, record.said)
        return record.terms

    def succeeded(self, gang: str) -> int:
        """Return how many members have succeeded.

        A pod that has succeeded counts for the gang of the pods that the same owner makes, as long as its object
        exists; a pod of a Job also after that. So the number is the same after a restart. Pods without an owner do not
        count.
        """
        record = self._gangs.get(gang)
        runs = record.runs if record else ()
        return sum(max(len(self._succeeded.get(run, ())), self.objects.succeeded(run)) for run in runs)

    def succeeded_of_tasks(self, gang: str, tasks: Collection[str]) -> Mapping[str, int]:
        """Return how many members of each of these tasks have succeeded whose objects exist."""
        hints = [pod.gang for pod in self._succeeded_pods(gang) if pod.gang is not None]
        every = [{one.task, *(named.task for named in one.groups)}.intersection(tasks) for one in hints]
        return Counter(task for of_pod in every for task in of_pod)

    def succeeded_of_sub_groups(self, gang: str, policies: Sequence[SubGroupPolicy]) -> Mapping[SubGroup, int]:
        """Return how many members of each sub-group have succeeded whose objects exist."""
        found = (sub_group_of(policies, dict(pod.needs.pod.labels)) for pod in self._succeeded_pods(gang))
        return Counter(one for one in found if one is not None)

    def _succeeded_pods(self, gang: str) -> Iterator[PodView]:
        record = self._gangs.get(gang)
        for run in record.runs if record else ():
            yield from self._succeeded.get(run, {}).values()

    def coming(self, gang: str) -> Coming | None:
        """Return the members that a JobSet makes later, one part after another; None for other gangs."""
        record = self._gangs.get(gang)
        if record is None:
            return None
        if record.coming is None:
            record.coming = (self._coming(gang, record),)
        return record.coming[0]

    def _coming(self, gang: str, record: _Gang) -> Coming | None:
        terms = self.terms(gang)
        if not isinstance(terms, GangTerms) or terms.source is not Source.OWNER:
            return None
        job_set = self.objects.job_sets.find(gang.partition("/")[0], terms.uid)
        if job_set is None or not job_set.is_in_order:
            return None
        there = Counter(self.task(pod) for pod in record.members)
        succeeded = self._succeeded.get(terms.uid, {}).values()
        pods = Counter(pod.gang.task for pod in succeeded if pod.gang is not None)
        return coming(job_set, there, pods | Counter(self.objects.succeeded_of_parts(terms.uid)))

    def needed(self, gang: str) -> int:
        """Return how many members have to exist before the gang starts, at least 1; those that have succeeded do not.

        Raises:
            KeyError: there is no such gang.
        """
        terms = self.terms(gang)
        least = terms.minimum - self.succeeded(gang) if isinstance(terms, GangTerms) else 1
        if (made := self.coming(gang)) is not None:
            least = min(least, len(self.members(gang)) + made.missing)
        return max(1, least)

    def dependents(self, name: str) -> Sequence[str]:
        """Return the keys of the pods whose gang depends on a group or owner, named as by ``dependencies_of``."""
        return tuple(self._dependents.get(name, ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._gangs)

    def memberships(self) -> Mapping[str, Membership]:
        """Return what is known of each member, by pod, as it is now, for other threads."""
        return self._memberships.copy()

    # Changes

    def upsert(self, pod: PodView, changes: Changes) -> None:
        """Add or replace a pod that has not ended. One that is being deleted is no member any more."""
        self._forget_succeeded(pod.key, changes)
        if pod.gang is None or pod.deleting:
            self._drop(pod.key, changes)
        else:
            self._pods[pod.key] = pod
            self._recheck(pod, changes)

    def remove(self, key: str, changes: Changes) -> None:
        """Remove a pod."""
        self._forget_succeeded(key, changes)
        self._drop(key, changes)

    def succeed(self, pod: PodView, changes: Changes) -> None:
        """Note that a pod has succeeded: it is no member any more."""
        self.remove(pod.key, changes)
        if pod.gang is not None and pod.gang.run:
            self._succeeded.setdefault(pod.gang.run, {})[pod.key] = pod
            self._run_of[pod.key] = pod.gang.run
            self._note_run(pod.gang.run, changes)

    def recheck(self, pods: Iterable[str], changes: Changes) -> None:
        """Look again at pods of which a claim has come, gone or changed."""
        for key in pods:
            if pod := self._pods.get(key):
                self._recheck(pod, changes)

    def change_runs(self, runs: Iterable[str], changes: Changes) -> None:
        """Note that the requests of these runs to come have changed."""
        for run in runs:
            self._note_run(run, changes)

    def depend_on(self, names: Iterable[str], changes: Changes) -> None:
        """Look again at the gangs of groups or owners that have changed, named as by ``dependencies_of``."""
        for name in sorted(names):
            self._note_run(name, changes)
            self.recheck(self.dependents(name), changes)

    def _recheck(self, pod: PodView, changes: Changes) -> None:
        facts = MembershipInput(pod.namespace, pod.gang, pod.rank, self._config_of(pod))
        self._depend(pod.key, dependencies_of(facts))
        self._assign(pod.key, membership_of(facts, self.objects), changes)

    def _drop(self, key: str, changes: Changes) -> None:
        if self._pods.pop(key, None) is not None:
            self._depend(key, ())
            self._assign(key, None, changes)

    def _depend(self, key: str, names: tuple[str, ...]) -> None:
        before = self._depends.get(key, ())
        if before == names:
            return
        for name in before:
            _take(self._dependents, name, key)
        for name in names:
            self._dependents.setdefault(name, {})[key] = None
        if names:
            self._depends[key] = names
        else:
            self._depends.pop(key, None)

    def _assign(self, key: str, membership: Membership | None, changes: Changes) -> None:
        before = self._memberships.get(key)
        if before == membership:
            return
        if before is not None:
            self._leave(key, self._memberships.pop(key), changes)
        if membership is not None:
            self._memberships[key] = membership
            self._join(key, membership, changes)
        changes.pods[key] = None

    def _join(self, key: str, membership: Membership, changes: Changes) -> None:
        if not membership.gang:
            return
        record = self._gangs.setdefault(membership.gang, _Gang())
        record.members[key] = None
        record.said.setdefault(membership.terms, {})[key] = None
        if membership.run:
            record.runs[membership.run] = record.runs.get(membership.run, 0) + 1
            self._gangs_of_run.setdefault(membership.run, {})[membership.gang] = None
        record.order = record.terms = record.coming = None
        changes.gangs[membership.gang] = None

    def _leave(self, key: str, membership: Membership, changes: Changes) -> None:
        if not membership.gang:
            return
        record, run = self._gangs[membership.gang], membership.run
        del record.members[key]
        _take(record.said, membership.terms, key)
        if run:
            record.runs[run] -= 1
            if not record.runs[run]:
                del record.runs[run]
                _take(self._gangs_of_run, run, membership.gang)
        record.order = record.terms = record.coming = None
        if not record.members:
            del self._gangs[membership.gang]
        changes.gangs[membership.gang] = None

    def _forget_succeeded(self, key: str, changes: Changes) -> None:
        if run := self._run_of.pop(key, ""):
            _take(self._succeeded, run, key)
            self._note_run(run, changes)

    def _note_run(self, run: str, changes: Changes) -> None:
        for gang in self._gangs_of_run.get(run, ()):
            self._gangs[gang].coming = None
            changes.gangs[gang] = None

    def _config_of(self, pod: PodView) -> ConfiguredGang:
        """Return the gang config of the pod's claims that are known and valid."""
        configs = []
        for key in pod.claim_keys:
            record = self._claims.get(key)
            if record is not None and record.claim.spec.config:
                configs.append((key, self._config_of_claim(record)))
        return config_of_pod(configs) if configs else NO_CONFIG

    def _config_of_claim(self, record: ClaimRecord) -> ConfiguredGang:
        known = self._asked.get(record.shape)
        if known is None:
            config = record.claim.spec.config
            try:
                known = config_of_claim(parameters_of(config, self._names, "", kind=PlacementConfig.__name__))
            except InvalidInput:
                # The pod waits with all faults of its claims (``controller.reconcile.podclaims``).
                known = NO_CONFIG
            self._asked[record.shape] = known
        return known


def _take(index: dict[K, dict[str, V]], name: K, key: str) -> None:
    """Remove a key from an index."""
    keys = index.get(name, {})
    keys.pop(key, None)
    if not keys:
        index.pop(name, None)
