"""Reports what is used of quotas in their ``status.used``, where kubectl shows it. Nothing is decided by it."""

from collections.abc import Iterable
from typing import Final

from controller.state import Changes
from controller.worker import AFTER_FAILURE_SECONDS, KeyedQueue, RetryTimes, Shared, Worker
from controller.writing import Lane, WriteResult, WriteSequence
from controller.writing.steps import PatchStatus, Target
from driver.kube.api import RESOURCE_QUOTAS

PAUSE_SECONDS: Final = 2.0
"""Time in which changes of a namespace are collected."""


class QuotaUses(Worker):
    """Has the use of quotas written in the reporting lane, a namespace at a time, and only where it differs."""

    def __init__(self, shared: Shared):
        super().__init__(shared)
        self._namespaces: KeyedQueue[str] = KeyedQueue()
        """The namespaces whose quotas are looked at."""
        self._retries: RetryTimes[str] = RetryTimes(changed=AFTER_FAILURE_SECONDS, unanswered=AFTER_FAILURE_SECONDS)

    def restore(self) -> None:
        """Look at all namespaces with quotas."""
        self._look_at(self._state.quotas.namespaces)

    def note(self, changes: Changes) -> None:
        """Note that the quotas of namespaces, or what is used of them, may have changed."""
        self._look_at(changes.quota_uses)

    def _look_at(self, namespaces: Iterable[str]) -> None:
        due = self._clock.monotonic() + PAUSE_SECONDS
        for namespace in namespaces:
            self._namespaces.add(namespace, max(due, self._retries.at(namespace)))

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._namespaces.next_due()

    def work(self) -> bool:
        """Report the use of the quotas of one namespace; return False if nothing is due."""
        namespace = self._namespaces.pop(self._clock.monotonic())
        if namespace is None:
            return False
        for quota, used in self._state.quotas.unreported(namespace):
            step = PatchStatus(Target(RESOURCE_QUOTAS, quota.key, quota.uid), {"used": {**used}})
            sequence = WriteSequence(("reported", quota.key), (step,), Lane.REPORTING, author=self)
            self._writes.report(((RESOURCE_QUOTAS, quota.key), "used"), sequence)
        return True

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a report; after a failure, the namespace is looked at once more."""
        if result.error is not None:
            namespace = result.sequence.subject[1].partition("/")[0]
            self._retries.end(namespace, result.error, self._clock.monotonic())
            self._namespaces.add(namespace, self._retries.at(namespace))
