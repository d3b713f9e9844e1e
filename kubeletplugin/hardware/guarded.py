"""Bounds the time of every call to hardware that may be missing, fail or hang."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
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
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.use import Use

ANSWER_SECONDS = 5.0
"""Longest time of a call that only reads. The kubelet waits 45 s for a claim."""
READING_SECONDS = 2.0
"""Longest time of all readings together. Who scrapes metrics often waits for 10 s."""
CHANGE_SECONDS = 30.0
"""Longest time of a call that creates or destroys something: a GPU instance can need more than ten seconds."""
FIND_AGAIN_SECONDS = 1.0
"""Pause before the hardware is looked for again after it was not found."""

T = TypeVar("T")
CardReadings = Sequence[tuple[Card, Readings | LodeError]]
"""The readings of each card, or why there are none."""


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
        self._reading_seconds = min(READING_SECONDS, answer_seconds)
        self._cards: tuple[Card, ...] = ()
        """The last answer of ``cards``."""

    def finds(self) -> int:
        """Number of times that hardware was found. When it changes, the earlier cards are no longer those of this
        node."""
        return self._finder.finds

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``."""
        self._cards = self._ask_all(lambda source: source.cards())
        return self._cards

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return self._finder.found().unread_cards()

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

    def readings(self, card: Card) -> Readings:
        """See ``CardControl``. Other calls about the card neither wait for it nor fail because it hangs."""
        return self._guard(_readings_of(card), partial(self._read, card), self._reading_seconds)

    def all_readings(self) -> CardReadings:
        """The readings of the cards that were there last, all asked at once. Takes ``READING_SECONDS`` at most."""
        cards = self._cards
        questions = {_readings_of(card): partial(self._read, card) for card in cards}
        found = self._guard.each(questions, self._reading_seconds)
        return [(card, found[_readings_of(card)]) for card in cards]

    def _read(self, card: Card) -> Readings:
        return self._finder.found().of_card(card.uuid).readings(card)

    def _ask_all(self, question: Callable[[CardSource], T]) -> T:
        return self._guard("the hardware", lambda: question(self._finder.found()))

    def _ask(self, card: str, question: Callable[[CardControl], T], seconds: float | None = None) -> T:
        return self._guard(f"card {card}", lambda: question(self._finder.found().of_card(card)), seconds)


def _readings_of(card: Card) -> str:
    return f"readings of card {card.uuid}"


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
        return self._lane(subject).ask(question, self._seconds if seconds is None else seconds)

    def each(self, questions: Mapping[str, Callable[[], T]], seconds: float) -> Mapping[str, T | LodeError]:
        """The answer to each question, by its subject, or the error that a call would raise. All are asked at once.

        Args:
            seconds: longest time of all together.
        """
        found: dict[str, T | LodeError] = {}
        changing, all_there = threading.Lock(), threading.Event()

        def tell(subject: str, answer: tuple[T] | LodeError) -> None:
            with changing:
                found[subject] = answer if isinstance(answer, LodeError) else answer[0]
                if len(found) == len(questions):
                    all_there.set()

        for subject, question in questions.items():
            self._lane(subject).begin(question, partial(tell, subject))
        if questions:
            all_there.wait(seconds)
        with changing:
            return {subject: found.get(subject, _late(subject, seconds)) for subject in questions}

    def _lane(self, subject: str) -> "_Lane":
        with self._lock:
            return self._lanes.setdefault(subject, _Lane(subject, self._threads))


def _late(subject: str, seconds: float) -> TransientFault:
    return TransientFault(f"{subject} did not answer within {seconds:g} s")


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
        answers: SimpleQueue[tuple[T] | LodeError] = SimpleQueue()
        if not self._turn.acquire(timeout=seconds):
            raise self._busy()
        try:
            self._start(question, answers.put)
            answer = answers.get(timeout=seconds)
        except Empty:
            raise _late(self._subject, seconds) from None
        finally:
            self._turn.release()
        if isinstance(answer, LodeError):
            raise answer
        return answer[0]

    def begin(self, question: Callable[[], T], tell: Callable[[tuple[T] | LodeError], None]) -> None:
        """Ask and return at once; ``tell`` is called once, in any thread, unless the question hangs for ever."""
        if not self._turn.acquire(blocking=False):
            tell(self._busy())
            return
        try:
            self._start(question, tell)
        except TransientFault as fault:
            tell(fault)
        finally:
            self._turn.release()

    def _busy(self) -> TransientFault:
        return TransientFault(f"{self._subject} is busy with other questions")

    def _start(self, question: Callable[[], T], tell: Callable[[tuple[T] | LodeError], None]) -> None:
        """Have the question asked; raises TransientFault if it cannot be asked now, and then tells nothing."""
        if self._is_asking:
            raise TransientFault(
                f"{self._subject} does not answer: an earlier call into the vendor's library still hangs"
            )

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
                tell(answer)

        self._is_asking = True
        try:
            self._threads.run(ask)
        except RuntimeError as error:  # no thread can be started now, so nothing was asked
            self._is_asking = False
            raise TransientFault(f"{self._subject} cannot be asked now: {error}") from error


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
