"""Bounds the time of every call to hardware that may be missing, fail or hang."""

import threading
from collections.abc import Callable, Collection, Mapping
from queue import Empty, SimpleQueue
from typing import TypeVar

from driver.clock import Clock
from driver.errors import LodeError, TransientFault
from driver.threads import SpareThreads, Threads
from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.port import (
    Assessment,
    CardControl,
    CardSource,
    CardState,
    Hardware,
    HardwareRefusal,
    Health,
)
from kubeletplugin.hardware.use import Use

ANSWER_SECONDS = 5.0
"""Longest time of a call that only reads. The kubelet waits 45 s for a claim."""
CHANGE_SECONDS = 30.0
"""Longest time of a call that creates or destroys something: a GPU instance can need more than ten seconds."""
FIND_AGAIN_SECONDS = 1.0
"""Pause before the hardware is looked for again after it was not found."""

T = TypeVar("T")


class GuardedHardware(Hardware):
    """Finds the hardware at the first call and bounds the time of each call. Raises TransientFault and HardwareRefusal
    only.

    Calls into a vendor's library can hang for ever. So each call runs in a thread of its own and is given up after
    ``ANSWER_SECONDS`` or ``CHANGE_SECONDS``. Until that thread has ended, further calls about the same card fail at
    once; other cards are not affected. Thread-safe.

    Args:
        find: creates the hardware; may raise LodeError or OSError, and is called again then.
        is_other: whether the node should now have other hardware than was found; then ``find`` is called again.
        threads: run the calls.
    """

    def __init__(
        self,
        find: Callable[[], CombinedHardware],
        clock: Clock,
        answer_seconds: float = ANSWER_SECONDS,
        change_seconds: float = CHANGE_SECONDS,
        is_other: Callable[[], bool] = lambda: False,
        threads: Threads | None = None,
    ):
        self._finder = _Finder(find, clock, is_other)
        self._guard = Guard(answer_seconds, threads)
        self._change_seconds = change_seconds

    def finds(self) -> int:
        """Number of times that hardware was found. When it changes, the earlier cards are no longer those of this
        node."""
        return self._finder.finds

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``."""
        return self._ask_all(lambda source: source.cards())

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``."""
        return self._ask_all(lambda source: source.health())

    def observe(self, card: Card) -> CardState:
        """See ``CardControl``."""
        return self._ask(card.uuid, lambda control: control.observe(card))

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``CardControl``."""
        return self._ask(use.card.uuid, lambda control: control.actions(use, taken))

    def assess(self, use: Use, taken: Collection[str]) -> Assessment:
        """See ``CardControl``. One guarded call instead of three, so a hanging card costs one time-out."""
        return self._ask(use.card.uuid, lambda control: control.assess(use, taken))

    def ensure(self, action: Action) -> Handle:
        """See ``CardControl``."""
        return self._ask(action.card, lambda control: control.ensure(action), self._change_seconds)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``CardControl``."""
        self._ask(action.card, lambda control: control.release(action, handle), self._change_seconds)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``CardControl``."""
        return self._ask(use.card.uuid, lambda control: control.edits(use, handles))

    def _ask_all(self, question: Callable[[CardSource], T]) -> T:
        return self._guard("the hardware", lambda: question(self._finder.found()))

    def _ask(self, card: str, question: Callable[[CardControl], T], seconds: float | None = None) -> T:
        return self._guard(f"card {card}", lambda: question(self._finder.found().of_card(card)), seconds)


class Guard:
    """Bounds the time of calls that can hang; calls about the same subject run one after another. Thread-safe.

    Args:
        seconds: longest time of a call.
        threads: run the calls.
    """

    def __init__(self, seconds: float, threads: Threads | None = None):
        self._seconds = seconds
        self._threads = threads or SpareThreads("hardware")
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def __call__(self, subject: str, question: Callable[[], T], seconds: float | None = None) -> T:
        """The answer.

        Args:
            subject: the card or the hardware, for messages.
            seconds: longest time of this call, if it differs.

        Raises:
            HardwareRefusal: the question raised it.
            TransientFault: there is no answer in time, an earlier question still hangs, or the question raised another
                LodeError or OSError.
        """
        with self._lock:
            lane = self._lanes.setdefault(subject, _Lane(subject, self._threads))
        return lane.ask(question, self._seconds if seconds is None else seconds)


class _Lane:
    """Calls about one subject, which run one after another in other threads.

    Args:
        subject: what is asked, for messages.
    """

    def __init__(self, subject: str, threads: Threads):
        self._subject = subject
        self._threads = threads
        self._turn = threading.Lock()
        self._is_asking = False
        """Whether a call is running, perhaps long after it was given up."""

    def ask(self, question: Callable[[], T], seconds: float) -> T:
        if not self._turn.acquire(timeout=seconds):
            raise TransientFault(f"{self._subject} is busy with other questions")
        try:
            if self._is_asking:
                raise TransientFault(
                    f"{self._subject} does not answer: an earlier call into the vendor's library still hangs"
                )
            return self._answer(question, seconds)
        finally:
            self._turn.release()

    def _answer(self, question: Callable[[], T], seconds: float) -> T:
        answers: SimpleQueue[tuple[T] | LodeError] = SimpleQueue()

        def ask() -> None:
            answer: tuple[T] | LodeError = TransientFault("the hardware's backend has a defect")
            try:
                answer = (question(),)
            except (HardwareRefusal, TransientFault) as error:
                answer = error
            except (LodeError, OSError) as error:
                answer = TransientFault(str(error))
            finally:
                self._is_asking = False
                answers.put(answer)

        self._is_asking = True
        try:
            self._threads.run(ask)
        except RuntimeError as error:  # no thread can be started now, so nothing was asked
            self._is_asking = False
            raise TransientFault(f"{self._subject} cannot be asked now: {error}") from error
        try:
            answer = answers.get(timeout=seconds)
        except Empty:
            raise TransientFault(f"{self._subject} did not answer within {seconds:g} s") from None
        if isinstance(answer, LodeError):
            raise answer
        return answer[0]


class _Finder:
    """Finds the hardware when it is first needed; after a failure, tries again only after a pause."""

    def __init__(self, find: Callable[[], CombinedHardware], clock: Clock, is_other: Callable[[], bool]):
        self._is_other = is_other
        self.finds = 0
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._hardware: CombinedHardware | None = None
        self._not_found: tuple[float, str] | None = None
        """The end of the pause after a failure, and the reason of the failure."""

    def found(self) -> CombinedHardware:
        """The hardware; raises TransientFault during the pause, and the errors of ``find``."""
        with self._lock:
            if self._hardware is not None and self._is_other():
                self._hardware = None
            if self._hardware is None:
                now = self._clock.monotonic()
                if self._not_found and now < self._not_found[0]:
                    raise TransientFault(self._not_found[1])
                try:
                    self._hardware = self._find()
                    self.finds += 1
                except (LodeError, OSError) as error:
                    self._not_found = now + FIND_AGAIN_SECONDS, str(error)
                    raise
            return self._hardware
