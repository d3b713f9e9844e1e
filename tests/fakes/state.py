"""The state of a fake library, as tests write and read it.

Every library has these keys beside its own:

- ``calls`` and ``calls.<function>``: how often the library was called.
- ``fault.<function>``, ``fault.<function>.<call>``, ``<card>.fault``, ``<card>.fault.<function>``: an error code, or
  ``hang`` as long as the key is there.
- ``kill``: the process dies as its call of this number begins. ``kill.after``: as it ends, when it has done its work.
"""

import fcntl
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
            self.path.write_text("".join(f"{key} {value}\n" for key, value in state.items()))

    def calls(self, function: str = "") -> int:
        """How often a function, or any, was called."""
        return int(self.state().get(f"calls.{function}" if function else "calls", "0"))

    def _read(self) -> dict[str, str]:
        return parsed(self.path.read_text()) if self.path.exists() else {}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with Path(f"{self.path}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def parsed(text: str) -> dict[str, str]:
    """The keys of a state file."""
    return {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}
