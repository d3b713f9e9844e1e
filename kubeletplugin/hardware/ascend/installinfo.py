"""The file in which the installer of Ascend's driver says where the driver is. DCMI reads it."""

from pathlib import Path

_FILE = "/etc/ascend_install.info"


def link_install_info(host_root: str, file: str = _FILE) -> None:
    """Link to the host's file, unless there is one here.

    A mount would not do: it needs the file, which nodes without the driver lack, and it keeps the old file after the
    installer has replaced it.

    Args:
        host_root: where the host's file system is mounted.

    Raises:
        OSError: the folder cannot be written; the operator must apply ``manifests/ascend``.
    """
    here, at_host = Path(file), Path(host_root, file.lstrip("/"))
    if here != at_host and not here.is_symlink() and not here.exists():
        here.symlink_to(at_host)
