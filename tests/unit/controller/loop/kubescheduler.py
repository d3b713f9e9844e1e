"""kube-scheduler as a controller under test meets it: it refuses for reasons that the controller does not know."""

from collections.abc import Callable

from controller.reconcile.history import RELEASE_SECONDS
from driver.kube.api import PODS
from tests.unit.controller.loop.world import ControllerWorld

INITIAL_BACKOFF, MAX_BACKOFF = 1.0, 10.0
"""podInitialBackoffSeconds and podMaxBackoffSeconds."""
STEP = RELEASE_SECONDS / 4

Accepts = Callable[[str, str], str]
"""Why the pod cannot run on the node, as one clause; "" if it can."""


class UnknownReasons:
    """Binds pods where their claims are, or refuses them; tries a pod again when its claims have changed.

    It waits between two attempts for a pod, longer each time, and writes only what is new, as kube-scheduler does.
    """

    def __init__(self, world: ControllerWorld, refuses: Accepts, nodes: int):
        self._world = world
        self._refuses = refuses
        self._nodes = nodes
        self._attempts: dict[str, int] = {}
        self._next: dict[str, float] = {}
        self._seen: dict[str, str] = {}
        self.bound: dict[str, str] = {}
        self.tried: dict[str, list[str]] = {}

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Let the controller and this scheduler work; returns how many seconds passed."""
        start = self._world.clock.monotonic()
        while self._world.clock.monotonic() - start < seconds and not until():
            self.step()
            self._world.settle(STEP)
        return self._world.clock.monotonic() - start

    def step(self) -> None:
        for pod in self._world.api.list(PODS).items:
            name = pod["metadata"]["name"]
            if pod["spec"].get("schedulingGates") or pod["spec"].get("nodeName"):
                continue
            claims = [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]
            state = str([self._world.claim(claim).get("status") for claim in claims])
            now = self._world.clock.monotonic()
            if now < self._next.get(name, 0) or self._seen.get(name) == state:
                continue
            self._seen[name] = state
            self._try(name, claims, now)

    def _try(self, name: str, claims: list[str], now: float) -> None:
        nodes = {place.split("/")[0] for claim in claims for place in self._world.devices(claim)}
        if not nodes:
            self._world.refuse(name, "running PreBind plugin: the policy denied the request", "SchedulerError")
        else:
            (node,) = nodes
            self.tried.setdefault(name, []).append(node)
            if not (clause := self._refuses(name, node)):
                self._world.bind(name, node)
                self.bound[name] = node
                return
            others = f"{self._nodes - 1} resourceclaim not available on the node"
            self._world.refuse(name, f"0/{self._nodes} nodes are available: 1 {clause}, {others}. no preemption")
        self._attempts[name] = self._attempts.get(name, 0) + 1
        self._next[name] = now + min(INITIAL_BACKOFF * 2 ** (self._attempts[name] - 1), MAX_BACKOFF)
