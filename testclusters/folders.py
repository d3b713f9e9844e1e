"""Temporary folders that belong to a process. The next one to make a folder removes those whose process has died."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

_OWNER = "owner"


@dataclass(frozen=True)
class OwnFolder:
    """A folder that exists until `remove`, or until its process dies and another process makes a folder."""

    path: Path
    _held: IO[str]

    @classmethod
    def make(cls, prefix: str) -> Self:
        """Make a folder whose name starts with `prefix`, and remove the folders of this prefix that nobody owns."""
        with _alone(prefix):
            _remove_abandoned(prefix)
            path = Path(tempfile.mkdtemp(prefix=prefix))
            held = (path / _OWNER).open("w")
            fcntl.flock(held, fcntl.LOCK_EX)
        return cls(path, held)

    def remove(self) -> None:
        """Remove the folder with everything in it. Calling it again does nothing."""
        self._held.close()
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def _alone(prefix: str) -> Iterator[None]:
    # A folder without an owner may be one that is being made: nobody looks for such folders meanwhile.
    with (Path(tempfile.gettempdir()) / f".{prefix}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_abandoned(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError), (path / _OWNER).open("a") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
