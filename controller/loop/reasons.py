"""The reasons why pods wait: which are found, and when they are said."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from controller.autoscaling import NodeWishes
from controller.explaining import MessageFinder, with_member
from controller.loop.holds import Holds
from controller.loop.waiting import WaitingPods
from controller.quotas import Quota
from controller.reconcile.decisions import PodRefusal, Reason, Wait
from controller.reporting import Reporter
from controller.state import Changes, PodView
from controller.state.versions import UndecodedObject
from controller.worker import Shared, Worker
from controller.writing import WriteResult
from driver.kube.api import Conflict

_REPORT_AGAIN_SECONDS: Final = 10.0
_CHANGED_SECONDS: Final = 1.0  # by then, the watch has most likely told of the change that a report met
_MOST_REPORTED: Final = 100
"""Most unreadable objects, or quotas, that are reported on the object at once; metrics count all."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What a member of a gang is told, as of ``PodReports.report``."""

    wait: Wait
    event: bool
    wish: str


class PodReports(Worker):
    """Says why pods wait, and which objects cannot be understood.

    To find why no node takes a pod may cost more than all decisions that are due. So it is done when none is, and
    namespaces take turns.

    Attributes:
        reporter: writes conditions and Events; its author is this.
        wishes: the pods that ask autoscalers for a node.
    """

    def __init__(self, shared: Shared, waiting: WaitingPods, holds: Holds, identity: str):
        super().__init__(shared)
        self._waiting = waiting
        self._holds = holds
        self.reporter = Reporter(shared.writes, shared.clock, shared.state, shared.log, author=self, identity=identity)
        asking = shared.settings.autoscaling
        self.wishes = NodeWishes(shared.state, enabled=asking.enabled, unknown_kinds=asking.unknown_kinds)
        self._look_for_wishes = False
        """True if anything may have changed since the pods that ask for a node were looked at."""
        self._wishes_as_of: object = None
        """``_version_of_wishes`` then."""
        self._messages = MessageFinder()
        self._unexplained: dict[str, dict[str, _Told | None]] = {}
        """Pods whose reasons are still to be found and reported, by namespace; the first namespace has its turn. With
        what is told to a pod besides, if its gang waits for a member that no node takes."""
        self._reported_at: dict[str, int] = {}
        """``Nodes.generation`` for which the words were found, by pod."""

    def restore(self) -> None:
        """Report what cannot be understood."""
        self._report_faults(self._state.unreadable.objects(), [*self._state.quotas.invalid])
        self._look_for_wishes = self.wishes.enabled

    def note(self, changes: Changes) -> None:
        """Report what cannot be understood; whoever asks for a node is looked at again."""
        self._report_faults(changes.unreadable, changes.invalid_quotas)
        self._look_for_wishes = self.wishes.enabled

    def _report_faults(self, unreadable: Sequence[UndecodedObject], quotas: Sequence[Quota]) -> None:
        for found in unreadable[:_MOST_REPORTED]:
            self.reporter.report_unreadable(found)
        for quota in quotas[:_MOST_REPORTED]:
            self.reporter.report_invalid_quota(quota)

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._clock.monotonic() if self._unexplained or self._look_for_wishes else self.reporter.next_due()

    def work(self) -> bool:
        """Explain to one more pod why it waits, or repeat an Event; return False if nothing is due."""
        return self._explain_next() or self.reporter.remind()

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a report. If it was not written, the pod is looked at once more."""
        if self.reporter.on_result(result):
            return
        key, error = result.sequence.subject[1], result.error
        self._log.warning("condition or event not written", object=key, error=str(error))
        self.reporter.forget(key)
        if key in self._waiting:
            # If the pod was another one by then, the watch tells of it soon.
            pause = _CHANGED_SECONDS if isinstance(error, Conflict) else _REPORT_AGAIN_SECONDS
            self._queue.soon("pod", [key], pause)

    # What is said

    def report(self, pod: PodView, wait: Wait, *, event: bool, wish: str) -> None:
        """Report why the pod waits; arguments as of ``Reporter.report_wait``.

        If no node takes a member of its gang, it is reported when nothing is to be decided.
        """
        if wait.nowhere is None:
            self._say(pod, wait, event=event, wish=wish)
        else:
            self._unexplained.setdefault(pod.namespace, {})[pod.key] = _Told(wait, event, wish)

    def _say(self, pod: PodView, wait: Wait, *, event: bool, wish: str) -> None:
        reword = self.reporter.report_wait(pod, wait, event=event, wish=wish)
        if reword is not None:
            self._queue.add(("pod", pod.key), reword)

    def explain_later(self, pod: PodView) -> None:
        """Report why no node takes the pod, which waits for one, when nothing is to be decided."""
        self._unexplained.setdefault(pod.namespace, {})[pod.key] = None

    def end(self, pod: str) -> None:
        """Say nothing more about the wait of the pod (key)."""
        self.reporter.stop_reminding(pod)
        self._reported_at.pop(pod, None)
        namespace = pod.partition("/")[0]
        pods = self._unexplained.get(namespace, {})
        pods.pop(pod, None)
        if not pods:
            self._unexplained.pop(namespace, None)

    def settle(self, pod: str) -> None:
        """Forget the pod, which is bound, has ended or is gone."""
        self.reporter.forget(pod)
        self.reporter.end_wish(pod)

    def _explain_next(self) -> bool:
        """Report to one more pod why no node takes it, or go on finding that; return False if there is no such pod."""
        if self._look_for_wishes and not self._unexplained:
            self._look_for_wishes, before, self._wishes_as_of = False, self._wishes_as_of, self._version_of_wishes
            if self._wishes_as_of != before:
                self._look_again()
        if not self._unexplained:
            return False
        namespace, key = next((name, next(iter(pods))) for name, pods in self._unexplained.items())
        if self._tell(key, self._unexplained[namespace][key]):
            others = self._unexplained.pop(namespace)
            del others[key]
            if others:
                self._unexplained[namespace] = others
        return True

    def _tell(self, key: str, told: "_Told | None") -> bool:
        """Report why the pod waits; return False if finding that takes further turns."""
        answer, pod, now = self._waiting.answer(key), self._state.pods.get(key), self._clock.monotonic()
        if pod is None:
            return True
        if told is None:
            return answer is None or self._explain(pod, answer, now)
        assert told.wait.nowhere is not None
        member = told.wait.nowhere
        if member.subject not in self._state.pods or any(
            claim not in self._state.claims for claim in member.why.claims
        ):
            # The gang is decided anew, because of that.
            return True
        found = self._messages.find(self._state, member, now)
        if found is None:
            return False
        wait = with_member(told.wait, member, found[0])
        self._say(pod, wait, event=told.event, wish=told.wish)
        return True

    @property
    def _version_of_wishes(self) -> object:
        # Nobody asks for a new node who could use one that is held back, or is held back no longer.
        return self.wishes.version, self._holds.opened

    def _look_again(self) -> None:
        """Look at all pods that wait for a node again: others may ask for one, because nodes or devices changed."""
        for key, _, _ in self._waiting.waiting():
            if self._waiting.answer(key) is None:
                continue
            if gang := self._state.gangs.gang_of(key):
                self._queue.soon("gang", [gang])
            else:
                self._unexplained.setdefault(key.partition("/")[0], {})[key] = None

    def _explain(self, pod: PodView, answer: PodRefusal, now: float) -> bool:
        """Report why no node takes the pod, if that is news; return False if finding that takes further turns."""
        generation, reported_at = self._state.nodes.generation, self._reported_at.get(pod.key)
        shown = next(
            (reason for reason in (answer.why.reason, Reason.IMPOSSIBLE) if self.reporter.shows(pod, reason)), None
        )
        if shown and (reword := self.reporter.reword_at(pod, shown)) is not None and now < reword:
            self.reporter.keep_said(pod, shown)
            self.reporter.set_wish(pod, self._wish_of(pod, answer))
            if reported_at != generation:
                self._queue.add(("pod", pod.key), reword)
            return True
        found = self._messages.find(self._state, answer, now)
        if found is None:
            return False
        message, self._reported_at[pod.key] = found
        wait = Wait(message.reason, message.text(answer.why.claims))
        self.reporter.report_wait(pod, wait, wish=self._wish_of(pod, answer))
        if found[1] != generation and (reword := self.reporter.reword_at(pod, wait.reason)) is not None:
            self._queue.add(("pod", pod.key), reword)
        return True

    def _wish_of(self, pod: PodView, answer: PodRefusal) -> str:
        return self.wishes.wish(answer, partial(self._holds.from_pod, pod))
