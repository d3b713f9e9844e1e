"""CDI's ``containerEdits`` as values: the changes of a container that gets a device. Pure."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device for a container, with the fields of CDI's ``deviceNodes``."""

    path: str
    """In the container."""
    host_path: str
    major: int
    minor: int
    permissions: str = "rw"
    type: Literal["b", "c", "u", "p"] = "c"
    """Block, character, unbuffered character, or named pipe."""
    file_mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    """None: as the runtime sets them. It takes the mode of the host's node, and the user and group of the container."""

    def owned_as(self, mode: int, uid: int, gid: int) -> "DeviceNode":
        """The node with the owner that it has on the host. What is root's there is its container's user's."""
        return replace(self, file_mode=mode & 0o7777, uid=uid or None, gid=gid or None) if uid or gid else self


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount, of a folder or file of the host where it has no type of its own."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "noexec", "bind")
    type: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that the runtime runs while it creates a container (OCI runtime specification, ``hooks``)."""

    path: str
    """On the host."""
    args: tuple[str, ...] = ()
    """With the name of the program as the first."""
    env: tuple[tuple[str, str], ...] = ()
    stage: str = "createContainer"
    timeout_seconds: int | None = None
    """None: the runtime waits without a bound."""


@dataclass(frozen=True, slots=True)
class Edits:
    """The changes of a container that gets a device."""

    env: tuple[tuple[str, str], ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = ()
    """Groups of the container's processes, for devices that only a group may open. 0 is left out."""
    mig_uuid: str = ""
    """The uuid by which the driver's programs name the device, if it is a MIG instance; else ""."""
