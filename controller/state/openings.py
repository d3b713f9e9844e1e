"""Finds when pods could be served that gates of others had held. Pure."""

from collections.abc import Callable

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

    def put(self, pod: PodView) -> None:
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
