"""The folder in which we play the kubelet, and which device plugins mount."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from driver.errors import OperatorFault

_LABEL: Final = "security.selinux"
_SHARED: Final = b"system_u:object_r:container_file_t:s0\0"


def make_folder(folder: Path) -> None:
    """Make the folder, or correct its rights: only root and what it gives the folder to may enter it.

    Raises:
        OperatorFault, OSError: there is something else at its path.
    """
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OperatorFault(f"{folder}: is no folder; remove it, or set kubeletplugin.deviceplugin.folder")
    if status.st_uid != os.geteuid():
        raise OperatorFault(f"{folder}: belongs to user {status.st_uid}; remove it: its owner could pretend to be one")
    if stat.S_IMODE(status.st_mode) != 0o750:
        folder.chmod(0o750)
    with suppress(OSError):  # there is no SELinux
        if os.getxattr(folder, _LABEL) != _SHARED:
            os.setxattr(folder, _LABEL, _SHARED)
