"""Reports what is used of quotas in their ``status.used``, where kubectl shows it. Nothing is decided by it."""

from collections.abc import Iterable
from typing import Final

from controller.state import State
from controller.writing import Lane, WriteResult, Writes, WriteSequence
from controller.writing.steps import PatchStatus, Target
from driver.clock import Clock
from driver.kube.api import RESOURCE_QUOTAS

PAUSE_SECONDS: Final = 2.0
"""Time in which changes of a namespace are collected."""
AFTER_FAILURE_SECONDS: Final = 60.0


class QuotaUses:
    """Has the use of quotas written in the reporting lane, a namespace at a time, and only where it differs."""

    def __init__(self, writes: Writes, clock: Clock, state: State):
        self._writes = writes
        self._clock = clock
        self._state = state
        self._due: dict[str, float] = {}
        """Time at which the quotas of a namespace are looked at (monotonic seconds)."""

    def note(self, namespaces: Iterable[str], after: float = PAUSE_SECONDS) -> None:
        """Note that the quotas of the namespaces, or what is used of them, may have changed."""
        for namespace in namespaces:
            self._due.setdefault(namespace, self._clock.monotonic() + after)

    def next_due(self) -> float | None:
        """Return when ``report`` has something to do (monotonic seconds); None if nothing has changed."""
        return min(self._due.values(), default=None)

    def report(self) -> bool:
        """Report the use of the quotas of one namespace; return False if nothing is due."""
        now = self._clock.monotonic()
        namespace = next((name for name, due in self._due.items() if due <= now), None)
        if namespace is None:
            return False
        del self._due[namespace]
        for quota, used in self._state.quotas.unreported(namespace):
            step = PatchStatus(Target(RESOURCE_QUOTAS, quota.key, quota.uid), {"used": {**used}})
            sequence = WriteSequence(("reported", quota.key), (step,), Lane.REPORTING)
            self._writes.report(((RESOURCE_QUOTAS, quota.key), "used"), sequence)
        return True

    def on_result(self, result: WriteResult) -> None:
        """Take in the result of a report; after a failure, the namespace is looked at once more."""
        if result.error is not None:
            self.note([result.sequence.subject[1].partition("/")[0]], AFTER_FAILURE_SECONDS)
