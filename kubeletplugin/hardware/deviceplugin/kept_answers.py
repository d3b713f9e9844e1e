"""Answers of device plugins that are in use, in a folder of files. Those of an earlier boot do not count."""

import hashlib
import threading
from typing import Any, Final

from driver.errors import SENSELESS
from driver.files import Files
from driver.kube.codec import decode_object, encode_object
from kubeletplugin.hardware.actions import Handle, PluginAllocation, action_from, action_to

_LETTERS: Final = 32
"""Letters of the digest that a file is named after."""

Kept = tuple[PluginAllocation, Handle]


class KeptAnswers:
    """Keeps each answer before anybody uses it, so that a device plugin is not asked twice if the program is killed.

    Thread-safe. Methods may raise OSError.
    """

    def __init__(self, files: Files, folder: str, boot_id: str):
        self._files = files
        self._folder = folder
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._read: dict[str, Kept | None] = {}
        """What each file has, by its name; None if it does not count."""

    def all(self) -> tuple[Kept, ...]:
        """The answers in use, also those that another program of this boot has kept."""
        names = self._files.names(self._folder)
        with self._lock:
            self._read = {name: self._read[name] if name in self._read else self._load(name) for name in names}
            return tuple(kept for kept in self._read.values() if kept is not None)

    def get(self, action: PluginAllocation) -> Handle | None:
        """The handle of an action; None if there is no answer."""
        kept = self._load(_name(action))
        return kept[1] if kept and kept[0].key == action.key else None

    def keep(self, action: PluginAllocation, handle: Handle) -> None:
        """Keep an answer."""
        name = _name(action)
        content = {"bootId": self._boot_id, "action": action_to(action), "handle": dict(handle)}
        self._files.write(f"{self._folder}/{name}", encode_object(content) + b"\n", may_lose="content")
        with self._lock:
            self._read.pop(name, None)

    def drop(self, action: PluginAllocation) -> None:
        """Forget an answer; absent is success."""
        name = _name(action)
        self._files.remove(f"{self._folder}/{name}")
        with self._lock:
            self._read.pop(name, None)

    def _load(self, name: str) -> Kept | None:
        data = self._files.read(f"{self._folder}/{name}")
        try:
            raw: Any = decode_object(data) if data is not None else {}
            action = action_from(raw["action"]) if raw.get("bootId") == self._boot_id else None
            return (action, dict(raw["handle"])) if isinstance(action, PluginAllocation) else None
        except SENSELESS:
            return None


def _name(action: PluginAllocation) -> str:
    return hashlib.sha256(action.key.encode()).hexdigest()[:_LETTERS] + ".json"
