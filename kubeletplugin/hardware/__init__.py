"""The node's accelerators behind a port: cards, their partitions, what is done to them, and the backends."""

from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.port import (
    Assessment,
    CardState,
    Found,
    Gone,
    Hardware,
    HardwareRefusal,
    Health,
    InUse,
    NoRoom,
    Unsupported,
)
from kubeletplugin.hardware.use import Share, Use

__all__ = [
    "Action",
    "Assessment",
    "Card",
    "CardState",
    "DeviceNode",
    "Edits",
    "Found",
    "Gone",
    "Handle",
    "Hardware",
    "HardwareRefusal",
    "Health",
    "Hook",
    "InUse",
    "Mount",
    "NoRoom",
    "Partition",
    "Scheme",
    "Share",
    "Unsupported",
    "Use",
]
