"""The node's accelerators behind two ports: cards, partitions, actions on the hardware, and the backends.

guarded             hardware that may be missing, fail or hang; who asks waits a bounded time
| infiniband        adds to cards which fabric and rail they are attached to
| simulated         the backend of simulated cards
| debounced_health  health that does not flap
| sticky_cards      reports a card that is lost as one that does not work
choosing            the backend that the setting names, or those of the hardware that is there
| ascend            the backend of Ascend NPUs
| nvidia            the backend of NVIDIA GPUs
boot_file           a value in a file that counts until the machine is started again
devices             device files of the node
| port              what a backend must do
actions             what is done to the hardware, as values
| asking            asks about one card, so that one that hangs hides no other
| edits             what a container gets of a device: CDI's ``containerEdits`` as values
| use               what a claim makes of one device
card                a card, whichever backend reports it
partitions          how cards can be partitioned
| sysfs             reads the kernel's view of the machine
| vendors           everything that differs by vendor outside the backends, in one table
"""

from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.port import (
    Assessment,
    CardControl,
    CardSource,
    CardState,
    Found,
    Gone,
    Hardware,
    HardwarePorts,
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
    "CardControl",
    "CardSource",
    "CardState",
    "DeviceNode",
    "Edits",
    "Found",
    "Gone",
    "Handle",
    "Hardware",
    "HardwarePorts",
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
