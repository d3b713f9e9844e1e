"""The state of a fake library, as tests write and read it.

Every library has these keys beside its own:

- ``calls`` and ``calls.<function>``: how often the library was called.
- ``fault.<function>``, ``fault.<function>.<call>``, ``<card>.fault``, ``<card>.fault.<function>``: an error code, or
  ``hang`` as long as the key is there.
- ``kill``: the process dies as its call of this number begins. ``kill.after``: as it ends, when it has done its work.
"""

import fcntl
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class FakeState:
    """Keys and values in a file, which survives the process that loads the library, as a driver does."""

    def __init__(self, path: Path):
        self.path = path

    def state(self) -> dict[str, str]:
        """All keys."""
        with self._locked():
            return self._read()

    def change(self, values: Mapping[str, str | int | None]) -> None:
        """Set keys; None removes one and those below it."""
        with self._locked():
            state = self._read()
            for key, value in values.items():
                if value is None:
                    state = {name: old for name, old in state.items() if name != key and not name.startswith(f"{key}.")}
                else:
                    state[key] = str(value)
            self._write(state)

    def calls(self, function: str = "") -> int:
        """How often a function, or any, was called."""
        return int(self.state().get(f"calls.{function}" if function else "calls", "0"))

    def _read(self) -> dict[str, str]:
        return parsed(self.path.read_text()) if self.path.exists() else {}

    def _write(self, state: Mapping[str, str]) -> None:
        self.path.write_text("".join(f"{key} {value}\n" for key, value in state.items()))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with Path(f"{self.path}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class MemoryState(FakeState):
    """The same for a fake that is written in Python. A child of this process has what this one had when it began.

    ``kill.after`` is as ``kill``.
    """

    def __init__(self) -> None:
        super().__init__(Path("memory"))
        self._state: dict[str, str] = {}
        self.is_good = False
        """Whether all answers are good now, and nothing is counted."""

    def called(self, function: str, subject: str = "") -> str:
        """Count a call; returns how it errs, "" if it does not. Kills the process if that is to be.

        Args:
            subject: what the keys of what is asked begin with.
        """
        if self.is_good:
            return ""
        state = self._state
        every = state["calls"] = str(int(state.get("calls", "0")) + 1)
        own = state[f"calls.{function}"] = str(int(state.get(f"calls.{function}", "0")) + 1)
        if every in (state.get("kill"), state.get("kill.after")):
            os.kill(os.getpid(), signal.SIGKILL)
        keys = (f"fault.{function}.{own}", f"fault.{function}", f"{subject}.fault.{function}", f"{subject}.fault")
        return next((state[key] for key in keys if key in state), "")

    def _read(self) -> dict[str, str]:
        return dict(self._state)

    def _write(self, state: Mapping[str, str]) -> None:
        self._state = dict(state)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        yield


def parsed(text: str) -> dict[str, str]:
    """The keys of a state file."""
    return {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}
