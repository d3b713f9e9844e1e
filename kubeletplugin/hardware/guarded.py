"""Hardware that may be missing, fail or hang, behind the port: whoever asks waits a bounded time for an answer."""

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
"""How long a backend may take to answer. Kubelets wait 45 s for a claim."""
CHANGE_SECONDS = 30.0
"""How long a backend may take to create or destroy something: a GPU instance can need more than ten seconds."""
FIND_AGAIN_SECONDS = 1.0
"""How long it is not looked for the hardware again after it was not found."""

T = TypeVar("T")


class GuardedHardware(Hardware):
    """``Hardware`` that is found when it is first asked. Its methods raise TransientFault and HardwareRefusal only.

    Calls into a vendor's library can hang for ever. So each question is asked in another thread and given up after
    ``ANSWER_SECONDS`` or ``CHANGE_SECONDS``; until that thread has ended, no other question is asked about that card.
    A card that hangs delays no other. Thread-safe.

    Args:
        find: makes the hardware; may raise LodeError or OSError, and is called again then.
        is_other: whether the node is to have other hardware than was found last; then it is found again.
        threads: those that ask.
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
        """How often hardware was found: when this changes, the cards of before are not those of this node any more."""
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
        """See ``CardControl``; one guarded call instead of three, so a card that hangs costs one time-out."""
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
    """Asks questions that can hang, those about one subject one after another. Thread-safe.

    Args:
        seconds: how long a question may take.
        threads: those that ask.
    """

    def __init__(self, seconds: float, threads: Threads | None = None):
        self._seconds = seconds
        self._threads = threads or SpareThreads("hardware")
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def __call__(self, subject: str, question: Callable[[], T], seconds: float | None = None) -> T:
        """The answer.

        Args:
            subject: what is asked, for messages.
            seconds: how long this question may take, if not as long as any.

        Raises:
            HardwareRefusal: the question raised it.
            TransientFault: there is no answer in time, an earlier question still hangs, or the question raised another
                LodeError or OSError.
        """
        with self._lock:
            lane = self._lanes.setdefault(subject, _Lane(subject, self._threads))
        return lane.ask(question, self._seconds if seconds is None else seconds)


class _Lane:
    """Questions that are asked one after another, in other threads.

    Args:
        subject: what is asked, for messages.
    """

    def __init__(self, subject: str, threads: Threads):
        self._subject = subject
        self._threads = threads
        self._turn = threading.Lock()
        self._is_asking = False
        """Whether a question is asked that is not answered yet, perhaps long after it was given up."""

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
    """Makes the hardware when it is first needed, and not again too soon after it was not found."""

    def __init__(self, find: Callable[[], CombinedHardware], clock: Clock, is_other: Callable[[], bool]):
        self._is_other = is_other
        self.finds = 0
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._hardware: CombinedHardware | None = None
        self._not_found: tuple[float, str] | None = None
        """Until when it is not looked for the hardware, and why it was not found."""

    def found(self) -> CombinedHardware:
        """The hardware; raises TransientFault, or what ``find`` raises."""
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
