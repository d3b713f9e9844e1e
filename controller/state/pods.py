"""Pods by key and by claim, those that kube-scheduler ends, and when those with gates of others were opened. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from controller.state.podview import PodView
from controller.state.times import NEVER
from driver.names import Names


class Openings:
    """Pods that scheduling gates of others hold or held, and the time from which the latter could be served.

    The API does not record when a gate was removed. The newest creation time stamp of the pods and claims known at that
    moment stands for it: the pod comes after all of these, whatever the clock of this machine says. The pod's condition
    keeps it for later runs of the program.

    Args:
        gate: our own.
        now: seconds, as decisions are given them. What is remembered of them ends with this run of the program.
    """

    def __init__(self, gate: str = Names().gate, now: Callable[[], float] = lambda: NEVER) -> None:
        self._gate = gate
        self._now = now
        self._newest = ""
        self._held: set[str] = set()
        self._opened: dict[str, str] = {}
        self._moments: dict[str, float] = {}

    def exists(self, created: str) -> None:
        """Note that there is a pod or claim with this creation time stamp."""
        self._newest = max(self._newest, created)

    def upsert(self, pod: PodView) -> None:
        """Note a pod that was added or has changed."""
        self.exists(pod.created)
        if any(gate != self._gate for gate in pod.gates):
            self._held.add(pod.key)
        elif pod.key in self._held:
            self._held.discard(pod.key)
            self._opened[pod.key] = self._newest
            self._moments[pod.key] = self._now()

    def remove(self, pod: str) -> None:
        """Forget a pod that does not exist any more."""
        self._held.discard(pod)
        self._opened.pop(pod, None)
        self._moments.pop(pod, None)

    def is_held(self, pod: PodView) -> bool:
        """Return whether gates of others hold the pod."""
        return pod.key in self._held

    def moment(self, pod: PodView) -> float:
        """Return when the last gate of others was removed from the pod (seconds); long ago if that was not seen."""
        return self._moments.get(pod.key, NEVER)

    def opened(self, pod: PodView) -> str:
        """Return the creation time stamp after which the pod could be served; "" if gates of others never held it."""
        return self._opened.get(pod.key) or (pod.allocated.opened if pod.allocated else "")


class Pods(Mapping[str, PodView]):
    """All pods by key (``namespace/name``), indexed by the claims they refer to.

    Attributes:
        openings: the pods that gates of others hold or held, and from when the latter could be served.
    """

    def __init__(self, names: Names | None = None, now: Callable[[], float] = lambda: NEVER) -> None:
        self.openings = Openings((names or Names()).gate, now)
        self._pods: dict[str, PodView] = {}
        self._preempted: dict[str, dict[str, None]] = {}
        self._by_claim: dict[str, dict[str, None]] = {}

    def __getitem__(self, key: str) -> PodView:
        return self._pods[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def using(self, claim: str) -> Sequence[str]:
        """Return the keys of the pods that refer to the claim ``claim`` (namespace/name)."""
        return tuple(self._by_claim.get(claim, ()))

    def preempted_on(self, node: str, priority: int) -> Sequence[str]:
        """Return the keys of pods below ``priority`` that kube-scheduler ends on the node, and that have not ended."""
        return [key for key in self._preempted.get(node, ()) if self._pods[key].priority < priority]

    def upsert(self, pod: PodView) -> None:
        """Add or replace a pod."""
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        self.openings.upsert(pod)
        self._index_preempted(before, pod)
        if before is None or before.claim_keys != pod.claim_keys:
            if before is not None:
                self._unindex(before)
            for claim in pod.claim_keys:
                self._by_claim.setdefault(claim, {})[pod.key] = None

    def remove(self, key: str) -> PodView | None:
        """Remove a pod and return it; None if it is not known."""
        pod = self._pods.pop(key, None)
        self.openings.remove(key)
        if pod is not None:
            self._unindex(pod)
            self._index_preempted(pod, None)
        return pod

    def _index_preempted(self, before: PodView | None, after: PodView | None) -> None:
        if before is not None and before.preempted:
            self._preempted.get(before.node_name, {}).pop(before.key, None)
            if not self._preempted.get(before.node_name):
                self._preempted.pop(before.node_name, None)
        if after is not None and after.preempted and not after.terminal:
            self._preempted.setdefault(after.node_name, {})[after.key] = None

    def _unindex(self, pod: PodView) -> None:
        for claim in pod.claim_keys:
            users = self._by_claim.get(claim, {})
            users.pop(pod.key, None)
            if not users:
                self._by_claim.pop(claim, None)
