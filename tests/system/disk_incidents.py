"""What happens to the disks of nodes, in a history: files vanish or are damaged, and there is no room left."""

import posixpath
import random

from kubeletplugin.prepare.checkpoint import CorruptCheckpoint
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from tests.simulation.cluster import SimulatedCluster

SEEDS = 0.25
"""In how many histories disks are not as they should be."""
HAPPENS = 0.25
"""How often something happens to a disk after an action, in such a history."""


class DiskIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"disks of {seed}")
        self._cluster = cluster
        self._happen = self._random.random() < SEEDS

    def act(self) -> None:
        """Perhaps let something happen to the disk of some node."""
        if self._happen and self._random.random() < HAPPENS:
            name = self._random.choice(list(self._cluster.nodes))
            if self._random.random() < 0.4:
                self._fills(name)
            else:
                self._loses_a_file(name)

    def undo(self) -> None:
        """All disks have room. What was lost is the plugins' to make again."""
        for node in self._cluster.nodes.values():
            node.files.disk.full = ""

    def _fills(self, name: str) -> None:
        """The disk of the plugin gets full, or has room again."""
        disk = self._cluster.nodes[name].files.disk
        disk.full = "" if disk.full else plugin_directory(self._cluster.settings)
        self._cluster.log.note(name, "disk is full" if disk.full else "disk has room")

    def _loses_a_file(self, name: str) -> None:
        """A file of the plugin vanishes, or has another content. The next one comes when this one is made again."""
        node = self._cluster.nodes[name]
        storage = ClaimStorage(node.files, self._cluster.settings)
        try:
            claims = storage.load().claims
        except CorruptCheckpoint:
            return
        completed = {uid for uid, claim in claims.items() if claim.state == "completed"}
        if not completed or completed - storage.uids_with_cdi_spec():
            return
        paths = storage.paths
        of_plugin = [path for path in (storage.checkpoint_path, storage.actions_path) if node.files.read(path)]
        of_claims = [paths.cdi_file(uid) for uid in sorted(completed)]
        of_claims += [posixpath.join(paths.metadata_root, file) for file in node.files.names(paths.metadata_root)]
        path = self._random.choice((*of_plugin, self._random.choice(of_claims)))
        content = (node.files.read(path) or b"")[: self._random.choice((0, 40, 400))]
        self._cluster.log.note(name, f"file is damaged or lost: {path}")
        self._cluster.lose_file(name, path, self._random.choice((None, content)))
        if path in of_claims or self._random.random() < 0.5:
            self._cluster.slots.kill(f"plugin-{name}", self._random.choice((0.0, 3.0)))
