"""Folders of this program on a file system that a reboot empties, like the state that they record."""

import shutil
from pathlib import Path

from driver.errors import TransientFault

_OPEN = 0o1777
"""Containers of any user write there."""


class RunFolder:
    """Folders and small files below ``path``, which is the same on the host. Methods may raise TransientFault."""

    def __init__(self, path: str):
        self.path = path

    def make(self, *parts: str, shared: bool = False) -> str:
        """Make a folder, and those above it; returns its path.

        Args:
            shared: whether containers write there.
        """
        folder = Path(self.path, *parts)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if shared:
                folder.chmod(_OPEN)
        except OSError as error:
            raise TransientFault(f"{folder}: cannot be made: {error}") from error
        return str(folder)

    def write(self, *parts: str, text: str) -> str:
        """Write a file; returns its path."""
        path = Path(self.make(*parts[:-1]), parts[-1])
        try:
            new = path.with_name(f".{path.name}")
            new.write_text(text)
            new.replace(path)
        except OSError as error:
            raise TransientFault(f"{path}: cannot be written: {error}") from error
        return str(path)

    def read(self, *parts: str) -> str | None:
        """The content of a file; None if there is none."""
        try:
            return Path(self.path, *parts).read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TransientFault(f"{Path(self.path, *parts)}: cannot be read: {error}") from error

    def names(self, *parts: str) -> tuple[str, ...]:
        """Names in a folder, sorted; () if there is none."""
        try:
            return tuple(sorted(entry.name for entry in Path(self.path, *parts).iterdir() if entry.name[0] != "."))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise TransientFault(f"{Path(self.path, *parts)}: cannot be read: {error}") from error

    def remove(self, *parts: str) -> None:
        """Remove a file, or a folder with all in it; absent is success."""
        path = Path(self.path, *parts)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise TransientFault(f"{path}: cannot be removed: {error}") from error
