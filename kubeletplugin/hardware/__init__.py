"""The node's accelerators behind two ports: cards, partitions, actions on the hardware, and the backends.

guarded             bounds the time of calls to hardware that may be missing, fail or hang
| infiniband        adds to cards which fabric and rail they are attached to
| simulated         the backend of simulated cards
| remembered_cards  keeps lost cards, with fatal health, and health that does not flap
left_out            cards that the settings leave to other uses than claims
choosing            chooses the node's backends, by the setting or by the hardware that is there
| ascend            the backend of Ascend NPUs
| nvidia            the backend of NVIDIA GPUs
| deviceplugin      the backend of devices that vendors' own device plugins serve
known_answers       keeps the answers of a vendor's library, and asks again for those that did not come
| places            the places of the machine's PCI functions, as they were read last
| pci               the accelerators on the PCI bus
boot_file           a value in a file that is valid until the machine reboots
devices             device files of the node
| silence           the health of a card that does not answer
| place             where a PCI function is in the machine
| sysfs             reads the kernel's view of the machine
port                the two ports: the cards with their health, and the control of a card
actions             actions on the hardware, as values
| answer            an answer of a vendor's library: a value, "lacks it", or none
| asking            questions of a backend about one card
| readings          what a card measures of itself at the moment
| cdifields         what the fields of a CDI spec mean to runtimes, and which specs they refuse
| edits             changes of a container that gets a device: CDI's ``containerEdits`` as values
| use               the use of one device by a claim
card                a card, as every backend reports it
partitions          partition schemes of cards
| hostlinks         paths of the host without links
| vendors           everything that differs by vendor outside the backends, in one table
"""

from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.port import (
    Assessment,
    CardControl,
    CardGone,
    CardSource,
    CardState,
    FoundObject,
    Hardware,
    HardwarePorts,
    HardwareRefusal,
    Health,
    InUse,
    NoRoom,
    Unsupported,
)
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.use import Share, Use

__all__ = [
    "Action",
    "Assessment",
    "Card",
    "CardControl",
    "CardGone",
    "CardSource",
    "CardState",
    "DeviceNode",
    "Edits",
    "FoundObject",
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
    "Readings",
    "Scheme",
    "Share",
    "Unsupported",
    "Use",
]
