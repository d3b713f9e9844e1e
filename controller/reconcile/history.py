"""What is remembered about one pod between decisions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.reconcile.decisions import Decision, Release, TakeBack
from driver.backoff import delay

PATIENCE_SECONDS = 5.0
"""How long kube-scheduler may find a placed pod unschedulable before its devices are taken back; doubles each time."""


@dataclass(frozen=True, slots=True)
class PlacementHistory:
    """Where the pod was placed in vain. Losing it costs a retry, never correctness."""

    failures: int = 0
    """How often kube-scheduler found the pod unschedulable on the node where its devices were."""
    avoid: Mapping[str, float] = field(default_factory=dict)
    """Node to the time (epoch seconds) until which it is not tried."""
    released: float | None = None
    """When (epoch seconds) the pod's reservations were dropped by a ``Release``."""

    def patience(self, max_wait: float) -> float:
        """Seconds that kube-scheduler gets to bind the pod after its devices were allocated."""
        return delay(self.failures + 1, base=PATIENCE_SECONDS, bound=max_wait)

    def after(self, decision: Decision, now: float, max_wait: float) -> "PlacementHistory":
        """The history once the decision was carried out at ``now`` (epoch seconds)."""
        match decision:
            case Release():
                return replace(self, released=now)
            case TakeBack(node=node, unschedulable=True):
                until = now + delay(self.failures + 2, base=PATIENCE_SECONDS, bound=max_wait)
                return PlacementHistory(self.failures + 1, {**self.avoid, node: until})
        return self


NO_HISTORY = PlacementHistory()
