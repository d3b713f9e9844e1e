"""Folders of this program on a file system that a reboot empties, like the state that they record."""

import os
import secrets
from pathlib import Path

from driver.errors import TransientFault

_OPEN = 0o1777
"""Containers of any user write there."""


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with all in it; absent is success. Raises OSError.

    Containers write in these folders. So nothing is followed, and there is no limit to how deep they are: what is in a
    folder is moved up before the folder is removed.
    """
    try:
        folder = _opened(path, None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink(missing_ok=True)
        return
    try:
        while names := _names(folder):
            for name in names:
                _remove_from(folder, name)
    finally:
        os.close(folder)
    path.rmdir()


def _remove_from(folder: int, name: str) -> None:
    """Remove one entry of an open folder; what it has in it is in the folder itself afterwards."""
    try:
        inner = _opened(name, folder)
    except NotADirectoryError:
        os.unlink(name, dir_fd=folder)
        return
    try:
        for each in _names(inner):
            os.rename(each, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=folder)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _opened(path: Path | str, folder: int | None) -> int:
    """Open a folder. Raises NotADirectoryError for everything else, a link to a folder included."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


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
            remove_tree(path)
        except OSError as error:
            raise TransientFault(f"{path}: cannot be removed: {error}") from error
