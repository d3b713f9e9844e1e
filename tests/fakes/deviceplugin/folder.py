"""What this process does to the names in a folder, as it does it.

Vendors' plugins watch the kubelet's folder with inotify. Looking at names now and then would not do: of a file that is
renamed over another one, inotify tells no removal, and some plugins start anew only if they see one. inotify itself
would not do either: a user can have 128 instances of it, which two kind clusters take. Python tells the same of its own
process.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Happening = Literal["created", "removed"]


@dataclass(frozen=True, slots=True)
class FolderEvent:
    """A name that appears in the folder, or goes from it."""

    name: str
    happening: Happening


Listener = Callable[[FolderEvent], None]

_listeners: dict[str, list[Listener]] = {}


def watch(folder: Path, listener: Listener) -> Callable[[], None]:
    """Tell the listener what happens in the folder from now on, in order, until the answer is called.

    It is called in the thread that does it, just before it is done.
    """
    _hooked()
    listeners = _listeners.setdefault(str(folder.resolve()), [])
    listeners.append(listener)
    return lambda: listeners.remove(listener)


@cache
def _hooked() -> None:
    sys.addaudithook(_on_event)  # cannot be taken back; it does nothing where nobody listens


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listeners:
        return
    match event:
        case "os.remove" | "os.rmdir":
            path, folder = arguments
            _tell(path, folder, "removed")
        case "os.rename":
            source, target, source_folder, target_folder = arguments
            _tell(source, source_folder, "removed")
            _tell(target, target_folder, "created")
        case "os.link" | "os.symlink":
            _tell(arguments[1], arguments[-1], "created")
        case _:
            pass


def _tell(path: Any, folder: int, happening: Happening) -> None:
    place = Path(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else Path("-")
    if folder >= 0:
        place = Path(f"/proc/self/fd/{folder}").readlink() / place
    listeners = _listeners.get(str(place.parent.resolve()))
    if listeners and (happening == "created" or place.is_symlink() or place.exists()):
        for listener in tuple(listeners):
            listener(FolderEvent(place.name, happening))
