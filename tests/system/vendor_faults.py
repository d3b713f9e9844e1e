"""Wrong answers of a vendor's library, from a seed."""

import os
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.fakes.state import FakeState, MemoryState
from tests.system.vendor_machines import Asked, VendorMachine

MOST_CALLS_LATER = 6
"""How much later than the next call one is that errs once."""
OTHERS = 0.3
"""How often something else errs than what the backend asks first."""


class VendorFaults:
    """Lets functions answer wrongly: once, for a while, or until the end, for all cards or for one."""

    def __init__(self, machine: VendorMachine, seed: random.Random):
        self._machine = machine
        self._random = seed
        self._passing: list[tuple[FakeState, str]] = []
        self._lasting: list[tuple[FakeState, str]] = []

    def draw(self) -> Sequence[str]:
        """Let some calls err from now on; returns what errs in words."""
        return [self._one() for _ in range(self._random.choice((1, 1, 1, 2, 4)))]

    def _one(self) -> str:
        asked = self._of()
        fake, state = asked.fake, asked.fake.state()
        functions = sorted(key.removeprefix("calls.") for key in state if key.startswith("calls."))
        is_any = functions and (not asked.changing or self._random.random() < 0.6)
        function = self._random.choice(functions if is_any else asked.changing)
        how = self._random.choice(("once", "once", "once", "card", "while", "while", "ever", "all of a card"))
        facts = {code for meant, code in asked.meant if how == "all of a card" or meant == function}
        code = self._random.choice([code for code in asked.codes if code not in facts])
        match how:
            case "once":
                call = fake.calls(function) + 1 + self._random.randrange(MOST_CALLS_LATER)
                key, kept = f"fault.{function}.{call}", self._passing
            case "card":
                key, kept = f"{self._random.choice(asked.subjects)}.fault.{function}", self._passing
            case "all of a card":
                key, kept = f"{self._random.choice(asked.subjects)}.fault", self._passing
            case "while":
                key, kept = f"fault.{function}", self._passing
            case _:
                key, kept = f"fault.{function}", self._lasting
        kept.append((fake, key))
        fake.change({key: code})
        return f"{key} is {code}, {'until the end' if kept is self._lasting else 'for a while'}"

    def _of(self) -> Asked:
        """What errs: mostly what is asked first."""
        first, *others = self._machine.asked
        return self._random.choice(others) if others and self._random.random() < OTHERS else first

    def pass_by(self) -> None:
        """Let all answers be good but those that err until the end."""
        _forget(each for each in self._passing if each not in self._lasting)
        self._passing.clear()

    def end(self) -> None:
        """Let all answers be good."""
        _forget([*self._passing, *self._lasting])
        self._passing.clear()
        self._lasting.clear()

    @contextmanager
    def suspended(self, place: Path) -> Iterator[None]:
        """All answers are good for a while, for a program that changes nothing. What it asks is not counted.

        Args:
            place: a file for the state of the library meanwhile.
        """
        with ExitStack() as stack:
            for asked in self._machine.asked:
                stack.enter_context(_good(asked.fake, place))
            yield


def _forget(keys: Iterable[tuple[FakeState, str]]) -> None:
    of: dict[FakeState, list[str]] = {}
    for fake, key in keys:
        of.setdefault(fake, []).append(key)
    for fake, own in of.items():
        fake.change(dict.fromkeys(own))


@contextmanager
def _good(fake: FakeState, place: Path) -> Iterator[None]:
    if isinstance(fake, MemoryState):
        fake.is_good = True
        try:
            yield
        finally:
            fake.is_good = False
        return
    (variable,) = [name for name in ("FAKE_NVML", "FAKE_DCMI") if os.environ.get(name) == str(fake.path)]
    shutil.copy(fake.path, place)
    good = FakeState(place)
    good.change({key: None for key in good.state() if key.startswith("fault.") or ".fault" in key})
    os.environ[variable] = str(place)
    try:
        yield
    finally:
        os.environ[variable] = str(fake.path)
