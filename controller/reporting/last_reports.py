"""Remembers the last report about each pod, and tells whether another one is news. Pure."""

from dataclasses import dataclass, replace
from typing import Final

from controller.state import PodView

REWORD_SECONDS: Final = 600.0
"""Time that a message stays while only its words change: in a busy cluster its numbers change all the time."""


@dataclass(frozen=True, slots=True)
class Report:
    """The last message about a pod that waits."""

    uid: str
    reason: str
    message: str
    at: float
    """Time at which the words were reported, or looked at again (monotonic seconds)."""


class LastReports:
    """The last reports about pods that wait.

    After a start, the pod's own condition has the report of an earlier run.
    """

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def reword_at(self, pod: PodView, reason: str, now: float) -> float | None:
        """Return when (monotonic seconds) other words of the reason become news; None if any words are news now."""
        last = self._last(pod, now)
        return last.at + REWORD_SECONDS if last is not None and last.reason == reason else None

    def report(self, pod: PodView, reason: str, message: str, now: float) -> bool:
        """Remember a message that is to be reported; return whether it is news."""
        last, reword = self._last(pod, now), self.reword_at(pod, reason, now)
        if last is not None and reword is not None and (last.message == message or now < reword):
            if now >= reword:
                self._reports[pod.key] = replace(last, at=now)
            return False
        self._reports[pod.key] = Report(pod.uid, reason, message, now)
        return True

    def words(self, pod: PodView) -> str:
        """Return the last words about the pod; "" if there are none."""
        last = self._reports.get(pod.key)
        return last.message if last is not None else ""

    def forget(self, pod: str) -> None:
        """Forget the pod, which waits no longer or whose write failed: whatever comes next is news."""
        self._reports.pop(pod, None)

    def _last(self, pod: PodView, now: float) -> Report | None:
        last = self._reports.get(pod.key)
        if last is not None and last.uid == pod.uid:
            return last
        if pod.allocated is None or pod.allocated.status != "False":
            return None
        last = self._reports[pod.key] = Report(pod.uid, pod.allocated.reason, pod.allocated.message, now)
        return last
