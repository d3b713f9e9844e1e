"""Hardware that may be missing, fail or hang, behind the port: whoever asks waits a bounded time for an answer."""

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import TypeVar

from driver.clock import Clock
from driver.errors import LodeError, TransientFault
from driver.threads import start_thread
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition
from kubeletplugin.hardware.port import DeviceNode, Hardware, Health

ANSWER_SECONDS = 5.0
"""How long a backend may take to answer. Kubelets wait 45 s for a claim."""
FIND_AGAIN_SECONDS = 1.0
"""How long it is not looked for the hardware again after it was not found."""

T = TypeVar("T")


class GuardedHardware:
    """``Hardware`` that is found when it is first asked. Its methods raise TransientFault, and nothing else.

    Calls into a vendor's library can hang for ever. So each question is asked in a thread of its own and given up after
    ``ANSWER_SECONDS``; until that thread has ended, no other question is asked. Thread-safe.

    Args:
        find: makes the backend; may raise LodeError or OSError, and is called again then.
    """

    def __init__(self, find: Callable[[], Hardware], clock: Clock, answer_seconds: float = ANSWER_SECONDS):
        self._find = find
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._turn = threading.Lock()
        self._backend: Hardware | None = None
        self._not_found: tuple[float, str] | None = None
        """Until when it is not looked for the hardware, and why it was not found."""
        self._asking: threading.Thread | None = None

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        return self._ask(lambda backend: backend.cards())

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        return self._ask(lambda backend: backend.health())

    def device_nodes(self, card: Card, partition: Partition | None) -> tuple[DeviceNode, ...]:
        """See ``Hardware``."""
        return self._ask(lambda backend: backend.device_nodes(card, partition))

    def _ask(self, question: Callable[[Hardware], T]) -> T:
        if not self._turn.acquire(timeout=self._answer_seconds):
            raise TransientFault("the hardware is busy with other questions")
        try:
            if self._asking is not None and self._asking.is_alive():
                raise TransientFault("the hardware does not answer: an earlier call into its library still hangs")
            return self._answer(question)
        finally:
            self._turn.release()

    def _answer(self, question: Callable[[Hardware], T]) -> T:
        answers: SimpleQueue[tuple[T] | str] = SimpleQueue()

        def ask() -> None:
            try:
                answers.put((question(self._found()),))
            except (LodeError, OSError) as error:
                answers.put(str(error))

        self._asking = start_thread("hardware", ask, lambda: answers.put("the hardware's backend has a defect"))
        try:
            answer = answers.get(timeout=self._answer_seconds)
        except Empty:
            raise TransientFault(f"the hardware did not answer within {self._answer_seconds:g} s") from None
        self._asking.join()
        if isinstance(answer, str):
            raise TransientFault(answer)
        return answer[0]

    def _found(self) -> Hardware:
        if self._backend is None:
            now = self._clock.monotonic()
            if self._not_found and now < self._not_found[0]:
                raise TransientFault(self._not_found[1])
            try:
                self._backend = self._find()
            except (LodeError, OSError) as error:
                self._not_found = now + FIND_AGAIN_SECONDS, str(error)
                raise
        return self._backend
