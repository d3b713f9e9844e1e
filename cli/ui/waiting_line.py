"""Who comes when: several may ask at once, and the others wait in the order in which they came."""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from driver.errors import LodeError


class NoTurn(LodeError):
    """Somebody does not get a turn now; the message says why."""


class WaitingLine:
    """A line of those who ask. Thread-safe.

    Each has one place in it. So whoever asks again does that after all others who wait now.

    Args:
        at_once: whose turn it is at once.
        most: in the line, those included.
        longest_wait: in seconds.
    """

    def __init__(self, at_once: int, most: int, longest_wait: float):
        self._at_once = at_once
        self._most = most
        self._longest_wait = longest_wait
        self._line: list[Hashable] = []
        self._moved = threading.Condition()

    def __len__(self) -> int:
        """How many have a turn or wait for one."""
        with self._moved:
            return len(self._line)

    @contextmanager
    def turn(self, who: Hashable) -> Iterator[None]:
        """Wait for a turn, which lasts until the block ends.

        Raises:
            NoTurn: the same one is in the line already, or the line is too long or too slow.
        """
        with self._moved:
            if who in self._line:
                raise NoTurn("another question of yours is being answered; ask again when it is")
            if len(self._line) >= self._most:
                raise NoTurn(f"{len(self._line)} others ask before you; ask again in a minute")
            self._line.append(who)
            if not self._moved.wait_for(lambda: who in self._line[: self._at_once], self._longest_wait):
                self._leave(who)
                raise NoTurn(f"others have asked for {self._longest_wait:g} seconds; ask again in a minute")
        try:
            yield
        finally:
            with self._moved:
                self._leave(who)

    def _leave(self, who: Hashable) -> None:
        self._line.remove(who)
        self._moved.notify_all()
