"""The pods that wait: parks each with those that wait for the same, and wakes those that a change can help."""

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from controller.preemption.worker import Preempting
from controller.reconcile.decisions import PodRefusal, Reason, Wait
from controller.reconcile.history import LAST_RESORT_SECONDS
from controller.reconcile.prospects import could_take, depends_on_other_pods
from controller.state import Changes, PodView
from controller.waiting import Help, ParkedPods, rank_of
from controller.worker import Shared, Worker

_HELPS: Final = {
    Reason.AMBIGUOUS_CLASS: Help.CLUSTER,
    Reason.INVALID_CLAIM: Help.CLUSTER,
    Reason.INVALID_PARAMETERS: Help.CLUSTER,
    Reason.MIXED_CLAIM: Help.CLUSTER,
    Reason.UNKNOWN_CLASS: Help.CLUSTER,
    Reason.NODE_UNUSABLE: Help.NODES,
    Reason.QUOTA_EXCEEDED: Help.QUOTA,
    Reason.QUOTA_INVALID: Help.QUOTA,
    Reason.REFUSED: Help.NODES,
}
"""The change that helps pods which wait for these reasons; for all others, a change of the pod or of its claims."""
_TERMS: Final = "terms of other pods"
"""Stands beside names of nodes for a change of pods that affinity and spread look at."""
_QUOTAS: Final = "quotas of the namespace"
"""Stands beside names of nodes for room in the quotas of the pod's namespace."""
_OTHER_DEVICES_SECONDS: Final = LAST_RESORT_SECONDS
"""Time after which the first pod that waits for a quota is tried without a change: it might get other devices than
before, such as those of a later alternative, which take less."""


@dataclass(slots=True)
class _Waiting:
    """A pod that waits."""

    since: float
    """Time from which the pod waits (monotonic seconds)."""
    reason: Reason
    answer: PodRefusal | None = None
    """The last answer if the pod waits for a node."""


class WaitingPods(Worker):
    """Pods that wait. None is tried again without a change, but for the last resort of pods that were refused.

    Args:
        held_from: returns the nodes that are held back from a pod.
    """

    def __init__(self, shared: Shared, preempting: Preempting, held_from: Callable[[PodView], Collection[str]]):
        super().__init__(shared)
        self._preempting = preempting
        self._held_from = held_from
        self._waiting: dict[str, _Waiting] = {}
        self._parked = ParkedPods()
        """The same pods, in groups."""
        self._helping: dict[str, dict[str, None]] = {}
        """The nodes whose changes may help a pod, "" for all of them, until it is looked at."""

    def __contains__(self, pod: str) -> bool:
        return pod in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self) -> Iterator[tuple[str, Reason, float]]:
        """Yield the pods that wait, each with what it waits for and since when it does (monotonic seconds)."""
        return ((key, one.reason, one.since) for key, one in self._waiting.items())

    def since(self, pod: str) -> float:
        """Return from when on the pod, which waits, has done so (monotonic seconds)."""
        return self._waiting[pod].since

    def answer(self, pod: str) -> PodRefusal | None:
        """Return why no node took the pod when it was tried last; None if it does not wait for a node."""
        waiting = self._waiting.get(pod)
        return waiting.answer if waiting is not None else None

    def is_first(self, pod: str) -> bool:
        """Return whether the pod is the first of those that wait for a node like it."""
        return self._parked.is_first(pod)

    # Parking

    def wait(self, pod: PodView, wait: Wait) -> None:
        """Let the pod wait for something else than a node of its own."""
        helps = _HELPS.get(wait.reason, Help.OWN)
        self._park(pod, wait.reason, None, helps, wait.group)
        if helps is Help.QUOTA and self._parked.is_first(pod.key, helps):
            self.try_soon(pod.key, _OTHER_DEVICES_SECONDS)

    def wait_for_node(self, answer: PodRefusal) -> None:
        """Let the pod wait until a node can take it, if it exists. If it is in a gang, that is woken then."""
        if pod := self._state.pods.get(answer.subject):
            self._park(pod, answer.why.reason, answer, Help.NODES)

    def _park(
        self, pod: PodView, reason: Reason, answer: PodRefusal | None, by: Help, together: Hashable = None
    ) -> None:
        waiting = self._waiting.setdefault(pod.key, _Waiting(self._clock.monotonic(), reason))
        waiting.answer, waiting.reason = answer, reason
        # A node that is held back is closed to one pod and open to another that ends sooner.
        group = (answer.why.group, pod.limit_seconds) if answer else (pod.namespace, together or pod.key)
        self.try_soon(self._parked.park(rank_of(self._state, pod), by, group))

    def end(self, pod: str) -> None:
        """End the pod's wait."""
        self._waiting.pop(pod, None)
        self._helping.pop(pod, None)
        self.try_soon(self._parked.leave(pod))

    def try_soon(self, pod: str | None, after: float = 0.0) -> None:
        """Have the pod decided about in so many seconds, if there is one."""
        if pod is not None:
            # A member is as urgent as its gang.
            gang = self._state.gangs.gang_of(pod)
            self._queue.soon("gang" if gang else "pod", [gang or pod], after)

    # Waking

    def note(self, changes: Changes) -> None:
        """Have those pods looked at that the changes may help."""
        self.wake([*changes.favoured, *([_TERMS] if changes.terms else [])])
        for namespace in changes.quotas:
            self._have_looked_at(self._parked.woken_by_quota(namespace), [_QUOTAS])

    def wake(self, nodes: Collection[str]) -> None:
        """Have the pods looked at that changes of these nodes may help, each in the turn of its namespace."""
        self._have_looked_at(self._parked.woken(nodes), nodes)

    def _have_looked_at(self, pods: Collection[str], changed: Collection[str]) -> None:
        for pod in pods:
            self._helping.setdefault(pod, {}).update(dict.fromkeys(changed))
        self._queue.soon("wake", pods)

    def recheck(self, pod: str, _: Changes) -> None:
        """Have the pod tried if the changes since it was looked at last can help it."""
        changed = self._helping.pop(pod, {})
        if pod not in self._parked:
            return
        is_open = "" in changed or any(node != _TERMS and self._could_use(pod, node) for node in changed)
        if is_open or (_TERMS in changed and self._depends_on_others(pod)):
            self.try_soon(pod)

    def _could_use(self, pod: str, node: str) -> bool:
        answer, view = self._waiting[pod].answer, self._state.pods.get(pod)
        if answer is None or view is None:
            return True
        if node == _QUOTAS or node in self._held_from(view):
            return False
        party, priority = self._preempting.party_of(view)
        with self._state.kept_places.open_to(party, priority):
            return could_take(self._state, answer, node) or self._preempting.could_make_room(answer, node, priority)

    def _depends_on_others(self, key: str) -> bool:
        pod = self._state.pods.get(key)
        return pod is None or depends_on_other_pods(self._state, pod)
