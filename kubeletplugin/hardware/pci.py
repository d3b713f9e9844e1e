"""The accelerators on the machine's PCI bus, whether or not their driver is installed."""

from collections.abc import Mapping

from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of


def cards_on_bus(sysfs: Sysfs) -> Mapping[Vendor, int]:
    """Number of accelerators of each vendor."""
    counts: dict[Vendor, int] = dict.fromkeys(EVERY_VENDOR, 0)
    vendors = {facts_of(vendor).pci_vendor: vendor for vendor in EVERY_VENDOR}
    for device in sysfs.names("bus/pci/devices"):
        vendor = vendors.get(sysfs.text(f"bus/pci/devices/{device}/vendor"))
        if vendor and sysfs.text(f"bus/pci/devices/{device}/class").startswith(facts_of(vendor).pci_classes):
            counts[vendor] += 1
    return counts
