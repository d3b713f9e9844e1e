"""Wrong answers of a vendor's library, from a seed."""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.state import FakeState
from tests.system.vendor_machines import VendorMachine

MOST_CALLS_LATER = 6
"""How much later than the next call one is that errs once."""


class VendorFaults:
    """Lets functions answer wrongly: once, for a while, or until the end, for all cards or for one."""

    def __init__(self, machine: VendorMachine, seed: random.Random):
        self._machine = machine
        self._random = seed
        self._passing: list[str] = []
        self._lasting: list[str] = []

    def draw(self) -> Sequence[str]:
        """Let some calls err from now on; returns what errs in words."""
        return [self._one() for _ in range(self._random.choice((1, 1, 1, 2, 4)))]

    def _one(self) -> str:
        fake, state = self._machine.fake, self._machine.fake.state()
        asked = sorted(key.removeprefix("calls.") for key in state if key.startswith("calls."))
        function = self._random.choice(asked if self._random.random() < 0.6 else self._machine.changing)
        meant = self._machine.meant
        code = self._random.choice([code for code in self._machine.codes if (function, code) not in meant])
        match self._random.choice(("once", "once", "once", "card", "while", "while", "ever", "all of a card")):
            case "once":
                call = fake.calls(function) + 1 + self._random.randrange(MOST_CALLS_LATER)
                key, kept = f"fault.{function}.{call}", self._passing
            case "card":
                key, kept = f"{self._random.choice(self._machine.cards())}.fault.{function}", self._passing
            case "all of a card":
                key, kept = f"{self._random.choice(self._machine.cards())}.fault", self._passing
            case "while":
                key, kept = f"fault.{function}", self._passing
            case _:
                key, kept = f"fault.{function}", self._lasting
        kept.append(key)
        fake.change({key: code})
        return f"{key} is {code}, {'until the end' if kept is self._lasting else 'for a while'}"

    def pass_by(self) -> None:
        """Let all answers be good but those that err until the end."""
        self._machine.fake.change(dict.fromkeys(key for key in self._passing if key not in self._lasting))
        self._passing.clear()

    def end(self) -> None:
        """Let all answers be good."""
        self._machine.fake.change(dict.fromkeys([*self._passing, *self._lasting]))
        self._passing.clear()
        self._lasting.clear()

    @contextmanager
    def suspended(self, place: Path) -> Iterator[None]:
        """All answers are good for a while, for a program that changes nothing. What it asks is not counted.

        Args:
            place: a file for the state of the library meanwhile.
        """
        fake = self._machine.fake
        (variable,) = [name for name in ("FAKE_NVML", "FAKE_DCMI") if os.environ.get(name) == str(fake.path)]
        shutil.copy(fake.path, place)
        good = FakeState(place)
        good.change({key: None for key in good.state() if key.startswith("fault.") or ".fault" in key})
        os.environ[variable] = str(place)
        try:
            yield
        finally:
            os.environ[variable] = str(fake.path)
