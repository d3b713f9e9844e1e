"""The edits of a container with Ascend chips: device files, the driver's files, environment. Pure."""

from collections.abc import Callable, Iterable

from kubeletplugin.hardware.ascend.generations import DRIVER_MOUNTS, MANAGER, Generation
from kubeletplugin.hardware.edits import DeviceNode, Edits, Mount

OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
ENVIRONMENT = (("ASCEND_VISIBLE_DEVICES", "void"),)
"""Keeps Ascend's container runtime from adding devices: the edits here are complete."""


class MissingDevice(Exception):
    """The node lacks a device file that containers with the chip need."""


def chip_file(physical_id: int) -> tuple[str, str]:
    """Names in ``/dev`` of a chip, on the host and in containers."""
    return f"davinci{physical_id}", f"davinci{physical_id}"


def vnpu_file(number: int) -> tuple[str, str]:
    """Names in ``/dev`` of a vNPU, on the host and in containers."""
    return f"vdavinci{number}", f"davinci{number}"


def edits(
    generation: Generation,
    files: Iterable[tuple[str, str]],
    device: Callable[[str, str], DeviceNode | None],
    exists: Callable[[str], bool],
) -> Edits:
    """The edits of a container with these chips or vNPUs.

    Args:
        files: their names in ``/dev``, on the host and in containers.
        device: finds a device file by its names on the host and in containers; None if the host does not have it.
        exists: whether the host has this path of the driver.

    Raises:
        MissingDevice: one of ``files`` or the driver's manager is missing.
    """
    required = [*files, (_manager(generation, device), MANAGER)]
    nodes = []
    for name, inside in required:
        node = device(name, inside)
        if node is None:
            raise MissingDevice(f"/dev/{name}")
        nodes.append(node)
    optional = (device(name, name) for name in generation.shared_nodes)
    mounts = (Mount(path, path, OPTIONS) for path in DRIVER_MOUNTS if exists(path))
    return Edits(ENVIRONMENT, (*nodes, *(node for node in optional if node)), tuple(mounts))


def _manager(generation: Generation, device: Callable[[str, str], DeviceNode | None]) -> str:
    return generation.manager if device(generation.manager, MANAGER) else MANAGER
