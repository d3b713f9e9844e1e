"""Threads that take turns: one runs at a time, and whenever it announces a call the seed says which one is next."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.clock import VirtualClock
from tests.simulation.faults import Crash

Condition = Callable[[], bool]
MOST_TURNS = 200_000
"""More than any history needs: nobody may try something again and again without time passing."""


@dataclass(slots=True, eq=False)
class _Actor:
    name: str
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: Condition = lambda: True
    due: float | None = None
    """When its turn may come although it is not ready."""
    ended: bool = False
    error: BaseException | None = None


class Turns:
    """Runs actors, each in a thread of its own. The same seed gives the same turns.

    Args:
        look: called between two turns.
    """

    def __init__(self, randomness: random.Random, clock: VirtualClock, look: Callable[[], None]):
        self._random = randomness
        self._clock = clock
        self._look = look
        self._actors: list[_Actor] = []
        self._now: _Actor | None = None
        self._over = False
        self._back = threading.Semaphore(0)

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Let ``work`` take part from now on. May be called by an actor."""
        actor = _Actor(name)

        def run() -> None:
            actor.turn.acquire()
            try:
                if not self._over:
                    work()
            except BaseException as error:  # noqa: BLE001 - it is raised by ``run``
                actor.error = error
            actor.ended = True
            self._back.release()

        self._actors.append(actor)
        threading.Thread(target=run, name=name, daemon=True).start()

    def wait(self, ready: Condition = lambda: True, seconds: float | None = None) -> None:
        """Let others run until ``ready`` or until ``seconds`` have passed, and then as long as the seed says."""
        actor = self._now
        assert actor is not None, "only actors wait"
        actor.ready = ready
        actor.due = None if seconds is None else self._clock.monotonic() + seconds
        self._back.release()
        actor.turn.acquire()
        if self._over:
            raise Crash(actor.name)

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        self.wait(lambda: False, seconds)

    def run(self) -> None:
        """Run until all actors have ended.

        Raises:
            AssertionError: those who are left wait for one another, or nobody comes to an end.
            BaseException: what an actor, or ``look``, raised.
        """
        try:
            for _ in range(MOST_TURNS):
                self._actors = [actor for actor in self._actors if not actor.ended]
                if not self._actors:
                    return
                self._next()
            raise AssertionError(f"after {MOST_TURNS} turns these have not ended: {self._names()}")
        finally:
            self._over = True
            for actor in self._actors:
                while not actor.ended:
                    self._give_turn(actor)

    def _next(self) -> None:
        now = self._clock.monotonic()
        able = [it for it in self._actors if (it.due is not None and it.due <= now) or it.ready()]
        if able:
            actor = self._random.choice(able)
            self._give_turn(actor)
            if actor.error is not None:
                raise actor.error
            self._look()
            return
        times = [actor.due for actor in self._actors if actor.due is not None]
        if not times:
            raise AssertionError(f"these wait for one another: {self._names()}")
        self._clock.advance(min(times) - now)

    def _give_turn(self, actor: _Actor) -> None:
        self._now = actor
        actor.turn.release()
        self._back.acquire()

    def _names(self) -> str:
        return ", ".join(actor.name for actor in self._actors)
