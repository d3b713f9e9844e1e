"""The device nodes of cards and of MIG instances."""

import re
from pathlib import Path

from driver.errors import TransientFault
from kubeletplugin.hardware.actions import Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import DeviceNode
from kubeletplugin.hardware.nvidia.root import DriverRoot

_NEEDED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""Device nodes that every CUDA program needs."""
_OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_CAPABILITIES = "nvidia-caps"
"""The class of device nodes that give access to MIG instances."""


class DeviceNodes:
    """The device nodes of one node's cards.

    Args:
        proc: where the kernel's ``/proc`` is.
    """

    def __init__(self, root: DriverRoot, proc: str = "/proc"):
        self._root = root
        self._proc = Path(proc)

    def missing(self, card: Card) -> str:
        """A message with the missing device node of a card, and the remedy; "" if none is missing.

        Raises:
            TransientFault: one cannot be looked at.
        """
        for path in (*_NEEDED, _of(card)):
            if self._root.device(path) is None:
                return f"{path} is missing; load the driver's modules, or run nvidia-modprobe -u -c {card.index}"
        return ""

    def of_card(self, card: Card) -> tuple[DeviceNode, ...]:
        """The device nodes with which a container uses a card.

        Raises:
            TransientFault: one is missing, or cannot be looked at.
        """
        if missing := self.missing(card):
            raise TransientFault(f"card {card.name}: {missing}")
        nodes = (self._root.device(path) for path in (*_NEEDED, *_OPTIONAL, _of(card)))
        return tuple(node for node in nodes if node)

    def of_instance(self, card: Card, handle: Handle) -> tuple[DeviceNode, ...]:
        """The device nodes with which a container uses a MIG instance: its card's, and two of its own.

        Raises:
            TransientFault: the kernel does not know the instance yet.
        """
        instance = f"gi{handle['gpuInstance']}"
        own = (instance, f"{instance}/ci{handle['computeInstance']}")
        return (*self.of_card(card), *(self._capability(card, part) for part in own))

    def _capability(self, card: Card, part: str) -> DeviceNode:
        major, minor = self._major(), self._minor(card, part)
        if major is None or minor is None:
            raise TransientFault(
                f"card {card.name}: the kernel does not say the device node of MIG instance {part}; it is in "
                f"{self._proc}/driver/nvidia/capabilities"
            )
        path = f"/dev/{_CAPABILITIES}/nvidia-cap{minor}"
        # The runtime makes the node from its numbers: on the host nvidia-modprobe makes it when it is first used.
        return DeviceNode(path, path, major, minor)

    def _major(self) -> int | None:
        found = re.search(rf"^\s*(\d+)\s+{_CAPABILITIES}$", self._text("devices"), re.MULTILINE)
        return int(found[1]) if found else None

    def _minor(self, card: Card, part: str) -> int | None:
        own = self._text(f"driver/nvidia/capabilities/gpu{card.index}/mig/{part}/access")
        if found := re.search(r"DeviceFileMinor:\s*(\d+)", own):
            return int(found[1])
        every = self._text("driver/nvidia-caps/mig-minors")
        found = re.search(rf"^gpu{card.index}/{re.escape(part)}/access (\d+)$", every, re.MULTILINE)
        return int(found[1]) if found else None

    def _text(self, path: str) -> str:
        try:
            return (self._proc / path).read_text()
        except OSError:
            return ""


def _of(card: Card) -> str:
    return f"/dev/nvidia{card.index}"
