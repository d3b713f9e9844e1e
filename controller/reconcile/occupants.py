"""Keeps everybody who has a place up to date, so that a look at whom to evict costs what has changed. Pure."""

from collections.abc import Collection, Iterable

from controller.preemption import Occupancy, RunningGang, prepare
from controller.reconcile.occupancy import (
    VictimLimits,
    has_devices,
    holder_left_behind,
    holder_of,
    running_gang,
    users_left_behind,
)
from controller.state import PodView, State, Touched


class Occupants:
    """The occupancy of a state, always as ``occupancy_of`` finds it.

    Args:
        state: nothing is known to it yet.
        follow: whether anybody is going to ask. Then PodDisruptionBudgets are watched, too.
    """

    def __init__(self, state: State, *, follow: bool):
        self.state = state
        self._touched = state.follow_budgets() if follow else Touched()
        self._follow = follow
        self._gangs: dict[str, RunningGang] = {}
        self._occupancy = Occupancy(gangs=self._gangs, driver=state.names.driver)
        self._uids: dict[str, str] = {}
        """The UIDs of the pods that are holders, by key."""
        self._members: dict[str, dict[str, None]] = {}
        """Keys of the holders of each gang."""
        self._restless: dict[str, None] = {}
        """Keys of the holders that may count otherwise as time goes by: being deleted, not bound yet, or spared."""
        self._left: dict[str, dict[str, str]] = {}
        """By key of a pod that is gone: the claims that it holds, each with the UID of the pod."""
        self._left_of: dict[str, Collection[tuple[str, str]]] = {}
        """The same by claim."""
        self._selections = -1
        """``Budgets.selections`` as of the last look."""

    def index(self, now: float) -> None:
        """Bring everything up to date. Without it, the first decision does the same, and takes long."""
        if self._follow:
            prepare(self.at(now, VictimLimits()), self.state.cluster)

    def at(self, now: float, limits: VictimLimits) -> Occupancy:
        """Return who has a place at ``now`` (as of ``State.at``); valid until the state changes."""
        state, occupancy, touched = self.state, self._occupancy, self._touched.take()
        if self._selections != state.budgets.selections:
            self._selections = state.budgets.selections
            touched.pods.update(dict.fromkeys(state.pods))
        spared = [occupancy.by_uid[uid].pod for uid in limits.spared if uid in occupancy.by_uid]
        pods = dict.fromkeys((*touched.pods, *self._restless, *spared, *self._of_gangs(touched)))
        holding = [pod for key in pods if (pod := self._holding(key)) is not None]
        for key in pods:
            self._forget(key, state.pods.get(key))
        for key in dict.fromkeys((*touched.claims, *self._claims_of(touched.pods))):
            self._look_at_claim(key)
        for pod in holding:
            holder = holder_of(state, pod, now, limits)
            occupancy.put(holder)
            self._uids[pod.key] = pod.uid
            if holder.gang:
                self._members.setdefault(holder.gang, {})[pod.key] = None
            if pod.deleting or not pod.node_name or pod.uid in limits.spared:
                self._restless[pod.key] = None
        occupancy.budgets = state.budgets.allowed
        return occupancy

    def _holding(self, key: str) -> PodView | None:
        """The pod, if it is a holder."""
        pod = self.state.pods.get(key)
        if pod is None or not self.state.nodes.node_of(key):
            return None
        return pod if has_devices(self.state, pod) or self.state.gangs.of(key) in self._gangs else None

    def _of_gangs(self, touched: Touched) -> Iterable[str]:
        """Look at the gangs that are touched; return the pods that are in them, or were."""
        state, occupancy = self.state, self._occupancy
        before = [occupancy.by_uid[self._uids[key]].gang for key in touched.pods if key in self._uids]
        found: dict[str, None] = {}
        for gang in dict.fromkeys((*touched.gangs, *before, *map(state.gangs.of, touched.pods))):
            members = state.gangs.members(gang) if gang else ()
            if any(has_devices(state, state.pods[key]) for key in members):
                self._gangs[gang] = running_gang(state, gang)
            else:
                self._gangs.pop(gang, None)
            found.update(dict.fromkeys((*members, *self._members.get(gang, ()))))
        return found

    def _claims_of(self, pods: Iterable[str]) -> Iterable[str]:
        """The claims that these pods hold, or held when they were gone."""
        for key in pods:
            pod = self.state.pods.get(key)
            yield from pod.claim_keys if pod else ()
            yield from self._left.get(key, ())

    def _forget(self, key: str, pod: PodView | None) -> None:
        """Forget what is known of a pod that may be no holder any more."""
        uid = self._uids.pop(key, "")
        self._restless.pop(key, None)
        known = self._occupancy.by_uid.get(uid)
        if known is None:
            return
        if known.gang:
            members = self._members[known.gang]
            members.pop(key, None)
            if not members:
                del self._members[known.gang]
        if pod is None or pod.uid != uid or self._holding(key) is None:
            self._occupancy.remove(uid)

    def _look_at_claim(self, key: str) -> None:
        """Find the pods that are gone, but still hold the claim."""
        before, record = self._left_of.pop(key, ()), self.state.claims.get(key)
        now = () if record is None else tuple(users_left_behind(self.state, record.claim))
        for pod, _ in before:
            self._left[pod].pop(key, None)
            if not self._left[pod]:
                del self._left[pod]
        for pod, uid in now:
            self._left.setdefault(pod, {})[key] = uid
        if now:
            self._left_of[key] = now
        for pod, uid in {*before, *now}:
            claims = [self.state.claims[one].claim for one, its in self._left.get(pod, {}).items() if its == uid]
            if claims:
                self._occupancy.put(holder_left_behind(pod, uid, claims))
            elif pod not in self._uids or self._uids[pod] != uid:
                self._occupancy.remove(uid)
