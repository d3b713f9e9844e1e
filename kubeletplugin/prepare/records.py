"""The checkpoint and the claims' files on this node's disk. Callers hold the lock."""

import hashlib
import posixpath
from collections.abc import Mapping
from contextlib import AbstractContextManager

from driver.files import Files
from driver.settings import Settings
from kubeletplugin.prepare import checkpoint as codec
from kubeletplugin.prepare import metadata
from kubeletplugin.prepare.checkpoint import Checkpoint
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import Places


def plugin_directory(settings: Settings) -> str:
    """The folder of this driver's plugin: ``<kubelet root>/plugins/<driver>``."""
    return posixpath.join(settings.kubeletplugin.kubelet_root, "plugins", settings.driver_name)


class Records:
    """Reads and writes one node's checkpoint, CDI specs and metadata files."""

    def __init__(self, files: Files, settings: Settings):
        directory = plugin_directory(settings)
        self.places = Places(
            driver=settings.driver_name,
            cdi_root=settings.kubeletplugin.cdi_root,
            metadata_root=posixpath.join(directory, "dra-device-metadata"),
        )
        self.path = posixpath.join(directory, "checkpoint.json")
        self._lock_path = posixpath.join(directory, "prepare.lock")
        self._files = files

    def lock(self) -> AbstractContextManager[None]:
        """Exclusive across the threads and processes of this node while held."""
        return self._files.lock(self._lock_path)

    def load(self) -> Checkpoint:
        """The checkpoint; an empty one before the first claim.

        Raises:
            CorruptCheckpoint: not what was written; see ``quarantine``.
            OperatorFault: written by a version newer than this one can read.
        """
        data = self._files.read(self.path)
        return Checkpoint() if data is None else codec.decode(data, self.path)

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        self._files.write(self.path, codec.encode(checkpoint))

    def quarantine(self) -> str:
        """Keep a copy of an unreadable checkpoint for a person to look at, and say where."""
        data = self._files.read(self.path) or b""
        copy = f"{self.path}.corrupt-{hashlib.sha256(data).hexdigest()[:12]}"
        self._files.write(copy, data)
        return copy

    def write(self, uid: str, wanted: Mapping[str, bytes]) -> None:
        """Make the claim's files exactly ``wanted``, in that order; those that are right already are left alone."""
        for path in self._present(uid):
            if path not in wanted:
                self._files.remove(path)
        for path, content in wanted.items():
            if self._files.read(path) != content:
                self._files.write(path, content)

    def remove(self, uid: str) -> None:
        """Remove the claim's files: the CDI spec first, so that none refers to a file that is gone."""
        self._files.remove(self.places.cdi_file(uid))
        for path in self._present(uid):
            self._files.remove(path)
        self.sweep()

    def sweep(self) -> None:
        """Remove what an instance that was killed in the middle of a write left of its file."""
        self._files.sweep(self.places.cdi_root, self.places.cdi_prefix)
        self._files.sweep(self.places.metadata_root)
        self._files.sweep(*posixpath.split(self.path))

    def uids(self) -> set[str]:
        """Claims that have files of any kind."""
        return self.specified() | {metadata.claim_uid(name) for name in self._files.names(self.places.metadata_root)}

    def specified(self) -> set[str]:
        """Claims that have a CDI spec: they were prepared since the machine was started."""
        return {uid for name in self._files.names(self.places.cdi_root) if (uid := self.places.cdi_uid(name))}

    def described(self) -> set[ClaimRef]:
        """Claims by the name their metadata files give them."""
        texts = (
            self._files.read(posixpath.join(self.places.metadata_root, name))
            for name in self._files.names(self.places.metadata_root)
        )
        return {ref for text in texts if text is not None and (ref := metadata.claim_ref(text))}

    def _present(self, uid: str) -> list[str]:
        names = self._files.names(self.places.metadata_root)
        paths = [posixpath.join(self.places.metadata_root, name) for name in names if metadata.claim_uid(name) == uid]
        return [self.places.cdi_file(uid), *paths] if uid in self.specified() else paths
