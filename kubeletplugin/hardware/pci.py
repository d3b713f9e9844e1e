"""The accelerators on the machine's PCI bus, whether or not their driver is installed."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of


@dataclass(frozen=True)
class CardsOnBus:
    """What was seen on the bus."""

    counts: Mapping[Vendor, int]
    """Number of accelerators of each vendor that could be read."""
    unread: tuple[str, ...] = ()
    """Files that could not be read now, and why. There may be more accelerators as long as there is one."""


def cards_on_bus(sysfs: Sysfs) -> CardsOnBus:
    """Count the accelerators of each vendor."""
    counts: dict[Vendor, int] = dict.fromkeys(EVERY_VENDOR, 0)
    vendors = {facts_of(vendor).pci_vendor: vendor for vendor in EVERY_VENDOR}
    unread: list[str] = []

    def text(answer: Answer[str]) -> str:
        if isinstance(answer, Unread):
            unread.append(answer.why)
        return answer if isinstance(answer, str) else ""

    devices = sysfs.listed("bus/pci/devices")
    if isinstance(devices, Unread):
        return CardsOnBus(counts, (devices.why,))
    for device in () if devices is LACKS else devices:
        vendor = vendors.get(text(sysfs.read(f"bus/pci/devices/{device}/vendor")))
        if vendor and text(sysfs.read(f"bus/pci/devices/{device}/class")).startswith(facts_of(vendor).pci_classes):
            counts[vendor] += 1
    return CardsOnBus(counts, tuple(unread))
