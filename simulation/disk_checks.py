"""What must hold on the disk of a node at every instant, because the programs on it may be killed at any."""

import json
from collections.abc import Iterator

from driver.settings import Settings
from kubeletplugin.prepare import checkpoint as codec
from kubeletplugin.prepare import metadata
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from simulation.files import MemoryFiles


class DiskChecks:
    """Looks at the disk of one node before each call of a program that follows a change of it.

    It looks at names and contents as the next program would find them if this one were killed now.

    Args:
        found: what is wrong is added here.
    """

    def __init__(self, node: str, files: MemoryFiles, settings: Settings, found: list[str]):
        self._node = node
        self._found = found
        self._disk = files.disk
        storage = ClaimStorage(files, settings)
        self._paths = storage.paths
        self._checkpoint_path = storage.checkpoint_path
        self._folders = (plugin_directory(settings), self._paths.metadata_root, self._paths.cdi_root)
        self._changes = -1
        self._states: dict[str, str] = {}
        """State by claim uid, as the checkpoint said at the last look."""
        self._excused: frozenset[str] = frozenset()
        self._waited = -1

    def look(self) -> None:
        """Look at the disk if it has changed since the last look."""
        if self._changes != self._disk.changes:
            self._changes = self._disk.changes
            self._found += [f"{self._node}: {problem}" for problem in self._problems()]

    def program_starts(self) -> None:
        """A plugin starts: what an earlier one was killed over need not be synced."""
        self._excused = frozenset(self._unsynced())

    def program_waits(self) -> None:
        """The plugin has answered its calls: a loss of power must not take back anything."""
        if self._waited == self._disk.changes:
            return
        self._waited = self._disk.changes
        lost = [path for path in self._unsynced() if path not in self._excused]
        self._found += [f"{self._node}: {path} is not synced, though its writer has gone on" for path in lost]

    def _unsynced(self) -> list[str]:
        return [path for folder in self._folders for path in self._disk.unsynced(folder)]

    def _problems(self) -> Iterator[str]:
        content = self._disk.content()
        states = self._recorded(content.get(self._checkpoint_path))
        if states is None:
            return
        specs = {uid: path for path in content if (uid := self._cdi_uid(path))}
        for uid, path in specs.items():
            missing = sorted(mount for mount in _mounts(content[path]) if mount not in content)
            if missing:
                yield f"CDI spec {path} mounts {missing}, which are not there"
            if uid not in states:
                yield f"CDI spec {path} is there, but the checkpoint does not know its claim"
        for name in self._names(content, self._paths.metadata_root):
            if metadata.claim_uid(name) not in states:
                yield f"metadata file {name} is there, but the checkpoint does not know its claim"
        for uid, state in states.items():
            if state == "completed" and self._states.get(uid) == "started" and uid not in specs:
                yield f"claim {uid} is recorded as completed before its CDI spec is written"
        self._states = states

    def _recorded(self, data: bytes | None) -> dict[str, str] | None:
        """The state of each claim in the checkpoint; None if power was lost while it was written."""
        if data is None:
            return {}
        try:
            claims = codec.decode(data, self._checkpoint_path).claims
        except codec.CorruptCheckpoint:
            return None
        return {uid: claim.state for uid, claim in claims.items()}

    def _cdi_uid(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        return self._paths.cdi_uid(name) if folder == self._paths.cdi_root else ""

    @staticmethod
    def _names(content: dict[str, bytes], folder: str) -> list[str]:
        """The complete files in a folder; temporary ones begin with a dot."""
        found = (path.rpartition("/") for path in content)
        return [name for parent, _, name in found if parent == folder and not name.startswith(".")]


def _mounts(spec: bytes) -> Iterator[str]:
    """The files on the host that a CDI spec mounts."""
    for device in json.loads(spec)["devices"]:
        for mount in (device.get("containerEdits") or {}).get("mounts") or []:
            yield mount["hostPath"]
