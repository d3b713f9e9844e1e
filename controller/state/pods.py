"""Pods by key, the pods that refer to a claim, and the pods that kube-scheduler ends on a node. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from controller.state.openings import Openings
from controller.state.podview import PodView
from controller.state.times import NEVER
from driver.names import Names


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

    def put(self, pod: PodView) -> None:
        """Add or replace a pod."""
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        self.openings.put(pod)
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
