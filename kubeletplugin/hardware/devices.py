"""Device files of the node."""

import os
import stat
from pathlib import Path

from kubeletplugin.hardware.edits import DeviceNode


class DeviceFiles:
    """The character devices below ``root``, where the host's ``/dev`` is mounted."""

    def __init__(self, root: str = "/dev"):
        self._root = Path(root)

    def find(self, name: str, as_name: str = "") -> DeviceNode | None:
        """The device ``/dev/<name>`` of the host, ``/dev/<as_name>`` in containers; None if the node does not have it.

        Raises:
            OSError: the folder cannot be read.
        """
        try:
            status = (self._root / name).stat()
        except FileNotFoundError:
            return None
        return node_of(status, f"/dev/{as_name or name}", f"/dev/{name}")

    def numbers(self, prefix: str) -> tuple[int, ...]:
        """The numbers ``n`` of the files ``/dev/<prefix><n>``, in order; () without the folder.

        Raises:
            OSError: the folder cannot be read.
        """
        try:
            names = [path.name for path in self._root.iterdir()]
        except FileNotFoundError:
            return ()
        digits = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return tuple(sorted(int(each) for each in digits if each.isdecimal()))


def node_of(status: os.stat_result, path: str, host_path: str) -> DeviceNode | None:
    """The device node of this status; None if it is no character device."""
    if not stat.S_ISCHR(status.st_mode):
        return None
    node = DeviceNode(path, host_path, os.major(status.st_rdev), os.minor(status.st_rdev))
    return node.owned_as(status.st_mode, status.st_uid, status.st_gid)
