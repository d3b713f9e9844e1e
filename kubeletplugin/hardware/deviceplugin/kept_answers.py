"""Answers of device plugins that are in use, in a folder of files. Those of an earlier boot do not count."""

import hashlib
import threading
from collections.abc import Mapping
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

    Thread-safe; nobody waits for the disk of another thread. Methods may raise OSError.
    """

    def __init__(self, files: Files, folder: str, boot_id: str):
        self._files = files
        self._folder = folder
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._read: Mapping[str, Kept | None] = {}
        """What each file has, by its name; None if it does not count."""
        self._changes = 0

    def all(self) -> tuple[Kept, ...]:
        """The answers in use, also those that another program of this boot has kept. Those of an earlier boot go."""
        names = self._files.names(self._folder)
        with self._lock:
            known, changes = self._read, self._changes
        read = {name: known[name] if name in known else self._load(name) for name in names}
        with self._lock:
            if self._changes == changes:
                self._read = read
        return tuple(kept for kept in read.values() if kept is not None)

    def get(self, action: PluginAllocation) -> Handle | None:
        """The handle of an action; None if there is no answer."""
        kept = self._load(self._name(action))
        return kept[1] if kept and kept[0].key == action.key else None

    def keep(self, action: PluginAllocation, handle: Handle) -> None:
        """Keep an answer."""
        name = self._name(action)
        content = {"bootId": self._boot_id, "action": action_to(action), "handle": dict(handle)}
        self._files.write(f"{self._folder}/{name}", encode_object(content) + b"\n", may_lose="content")
        self._forget(name)

    def drop(self, action: PluginAllocation) -> None:
        """Forget an answer; absent is success."""
        name = self._name(action)
        self._files.remove(f"{self._folder}/{name}")
        self._forget(name)

    def _forget(self, changed: str) -> None:
        with self._lock:
            self._read = {name: kept for name, kept in self._read.items() if name != changed}
            self._changes += 1

    def _load(self, name: str) -> Kept | None:
        path = f"{self._folder}/{name}"
        data = self._files.read(path)
        if data is None:
            return None
        try:
            raw: Any = decode_object(data)
        except SENSELESS:
            # What it had was lost with the power, as ``keep`` allows, and its name says no boot.
            self._files.remove(path)
            return None
        try:
            if raw["bootId"] != self._boot_id:
                self._files.remove(path)
                return None
            action = action_from(raw["action"])
            return (action, dict(raw["handle"])) if isinstance(action, PluginAllocation) else None
        except SENSELESS:
            return None

    def _name(self, action: PluginAllocation) -> str:
        # With the boot, because a program that removes the file of an earlier one must not meet one that writes anew.
        text = f"{self._boot_id} {action.key}"
        return hashlib.sha256(text.encode()).hexdigest()[:_LETTERS] + ".json"
