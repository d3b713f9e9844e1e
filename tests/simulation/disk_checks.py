"""What must hold on the disk of a node at every instant, because the programs on it may be killed at any."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache

from driver.files import SPARE, TEMPORARY
from driver.settings import Settings
from kubeletplugin.prepare import checkpoint as codec
from kubeletplugin.prepare import metadata
from kubeletplugin.prepare.checkpoint import PreparedClaim
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from tests.simulation.files import MemoryFiles

_OF_ONE_BOOT = ("/health.json", "/failed-cards.json")
"""The ends of the paths of files that do not count after the machine has started again."""


_decoded = lru_cache(maxsize=8)(codec.decode)
"""Of most changes of the disk, the checkpoint is none."""


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
        self._folder = plugin_directory(settings)
        self._changes = -1
        self._completed: set[str] = set()
        """The uids of the claims that were completed at the last look."""
        self._excused: frozenset[str] = frozenset()
        self._lost: set[str] = set()
        """Files that vanished, and were not there again since."""
        self._waited = -1

    def excuse(self, path: str) -> None:
        """A file was damaged or has vanished by itself: that it is missing is no fault of the program's."""
        self._lost.add(path)

    def power_lost(self) -> None:
        """What was not synced is undone: the checkpoint may know claims again that were completed before."""
        claims = self._recorded(self._disk.content()) or {}
        self._completed |= {uid for uid, claim in claims.items() if claim.state == "completed"}

    def look(self) -> None:
        """Look at the disk if it has changed since the last look."""
        if self._changes != self._disk.changes:
            self._changes = self._disk.changes
            self._found += [f"{self._node}: {problem}" for problem in self._problems()]

    def program_starts(self) -> None:
        """A plugin starts: what an earlier one was killed over is its to repair."""
        self._excused = frozenset(self._left_undone())

    def program_waits(self) -> None:
        """The plugin has answered its calls: every file has its claim, and what must survive a loss of power does."""
        if self._waited == self._disk.changes:
            return
        self._waited = self._disk.changes
        self._found += [f"{self._node}: {problem}" for problem in self._left_undone() if problem not in self._excused]

    def _left_undone(self) -> Iterator[str]:
        content = self._disk.content()
        claims = self._recorded(content)
        for path in self._disk.unsynced(self._folder):
            if not path.endswith((*_OF_ONE_BOOT, SPARE, TEMPORARY)) and not (
                path == self._checkpoint_path and self._may_be_lost(claims)
            ):
                yield f"{path} is not synced, though its writer has gone on"
        if claims is None:
            return
        for path in content:
            if (uid := self._cdi_uid(path)) and uid not in claims:
                yield f"CDI spec {path} is there, but the checkpoint does not know its claim"
        for name in self._names(content, self._paths.metadata_root):
            if metadata.claim_uid(name) not in claims:
                yield f"metadata file {name} is there, but the checkpoint does not know its claim"

    def _may_be_lost(self, claims: Mapping[str, PreparedClaim] | None) -> bool:
        """Whether a loss of power would only forget, or bring back, claims that have nothing on the hardware."""
        if claims is None:
            return False
        then = self._claims(self._disk.after_a_loss_of_power(self._checkpoint_path)) or {}
        on_hardware = [{uid: claim for uid, claim in known.items() if claim.steps} for known in (claims, then)]
        return on_hardware[0] == on_hardware[1]

    def _problems(self) -> Iterator[str]:
        content = self._disk.content()
        claims = self._recorded(content)
        if claims is None:
            return
        self._lost -= content.keys()
        specs = {uid: path for path in content if (uid := self._cdi_uid(path))}
        for path in specs.values():
            missing = sorted(mount for mount in _mounts(content[path]) if mount not in content.keys() | self._lost)
            if missing:
                yield f"CDI spec {path} mounts {missing}, which are not there"
        completed = {uid for uid, claim in claims.items() if claim.state == "completed"}
        for uid in sorted(completed - self._completed - specs.keys()):
            yield f"claim {uid} is recorded as completed before its CDI spec is written"
        self._completed = completed

    def _recorded(self, content: Mapping[str, bytes]) -> Mapping[str, PreparedClaim] | None:
        """The claims in the checkpoint; None if it is lost."""
        if self._checkpoint_path in self._lost and self._checkpoint_path not in content:
            return None
        return self._claims(content.get(self._checkpoint_path))

    def _claims(self, data: bytes | None) -> Mapping[str, PreparedClaim] | None:
        """The claims in a checkpoint; None if its content was lost with the power."""
        if data is None:
            return {}
        try:
            return _decoded(data, self._checkpoint_path).claims
        except codec.CorruptCheckpoint:
            return None

    def _cdi_uid(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        return self._paths.cdi_uid(name) if folder == self._paths.cdi_root else ""

    @staticmethod
    def _names(content: dict[str, bytes], folder: str) -> list[str]:
        """The complete files in a folder; temporary ones begin with a dot."""
        found = (path.rpartition("/") for path in content)
        return [name for parent, _, name in found if parent == folder and not name.startswith(".")]


def _mounts(spec: bytes) -> Iterator[str]:
    """The files on the host that a CDI spec mounts; none if it is damaged."""
    try:
        devices = json.loads(spec)["devices"]
    except (ValueError, KeyError):
        return
    for device in devices:
        for mount in (device.get("containerEdits") or {}).get("mounts") or []:
            yield mount["hostPath"]
