"""Pods that are no victims for a while, because the API server refused their eviction. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from driver.backoff import delay

SPARED_SECONDS: Final = 30.0
"""How long a pod is no victim after a refusal, at first."""
LONGEST_SECONDS: Final = 3600.0
"""How long after many, one after the other, that were not a budget's."""
_BUDGET: Final = "are kept by a PodDisruptionBudget, as the API server says"
_REFUSED: Final = "are kept by a webhook or policy, as the API server says"


@dataclass(frozen=True, slots=True)
class _Refused:
    until: float
    reason: str
    times: int = 0


class SparedVictims:
    """The pods whose eviction was refused. Times are monotonic seconds.

    Attributes:
        changes: grows with each pod that is spared, and each that is spared no longer.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._refused: dict[str, _Refused] = {}
        self._spared: dict[str, str] = {}

    def by_budget(self, pod: str, now: float) -> None:
        """Spare a pod (UID) that a budget does not let go. Whoever wrote the budget may change it at any time."""
        self._put(pod, _Refused(now + SPARED_SECONDS, _BUDGET))

    def refused(self, pod: str, now: float) -> None:
        """Spare a pod (UID) whose eviction was refused for another reason: each time for longer."""
        before = self._refused.get(pod)
        times = 1 if before is None else before.times + 1
        seconds = delay(times, base=SPARED_SECONDS, bound=LONGEST_SECONDS)
        self._put(pod, _Refused(now + seconds, _REFUSED, times))

    def at(self, now: float) -> Mapping[str, str]:
        """Return the pods (UIDs) that are spared, each with the reason, as a clause about pods."""
        # A refusal that is long past counts no more: the next one is the first again.
        self._refused = {uid: one for uid, one in self._refused.items() if one.until + LONGEST_SECONDS > now}
        spared = {uid: one.reason for uid, one in self._refused.items() if one.until > now}
        if spared.keys() != self._spared.keys():
            self.changes += 1
        self._spared = spared
        return spared

    def next_change(self, now: float) -> float | None:
        """Return when the next pod is spared no longer; None if none is."""
        return min((one.until for one in self._refused.values() if one.until > now), default=None)

    def _put(self, pod: str, refused: _Refused) -> None:
        self._refused[pod] = refused
        self._spared[pod] = refused.reason
        self.changes += 1
