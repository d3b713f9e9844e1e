"""Cards from what a device plugin reports and what the settings say about its resource. Pure."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from driver.deviceplugins import ResourceSettings, ValueSource, is_amount
from driver.quantity import Quantity
from kubeletplugin.hardware.card import Bridged, Card
from kubeletplugin.hardware.deviceplugin.reported import ReportedCard
from kubeletplugin.hardware.place import Place

MEBI: Final = 1024**2
_MOST_LABEL: Final = 30
_DIGEST: Final = 10
_PCI: Final = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LabelledNode:
    """The facts of the node that devices are completed with."""

    labels: Mapping[str, str]
    pci: Callable[[str], Place]
    """Where the PCI function with this address is."""


def device_name(resource: str, device_id: str) -> str:
    """The name of a device: a DNS label with room for ``-share``, of two parts as the names of other cards.

    Different devices have different names, because the second part is a digest of resource and ID.

    >>> device_name("amd.com/gpu", "0000:18:00.0")
    'gpu-9e9b1ee0f4'
    """
    digest = hashlib.sha256(f"{resource}\0{device_id}".encode()).hexdigest()[:_DIGEST]
    label = re.sub("[^a-z0-9]", "", resource.rpartition("/")[2].lower())[:_MOST_LABEL]
    return f"{label or 'device'}-{digest}"


def vendor_of(resource: str) -> str:
    """The vendor in the name of a resource.

    >>> [vendor_of(name) for name in ("amd.com/gpu", "gpu.intel.com/i915", "rdma/hca")]
    ['amd', 'intel', 'rdma']
    """
    labels = resource.partition("/")[0].split(".")
    return labels[-2] if len(labels) > 1 else labels[0]


def card_of(resource: str, report: ReportedCard, settings: ResourceSettings, node: LabelledNode) -> Card:
    """The card of a report."""
    groups = _groups(report.device_id, settings)
    address = pci_address(groups.get("pciBusID") or report.device_id)
    pci = node.pci(address) if address else Place()

    def given(source: ValueSource) -> str:
        if source.group:
            return groups.get(source.group) or ""
        if source.node_label:
            return node.labels.get(source.node_label, "")
        return source.value or source.table.get(report.device_id, "")

    amounts = {name: text for name, source in settings.capacity.items() if is_amount(text := given(source))}
    memory = amounts.pop("memory", "0")
    attributes = {name: given(source) for name, source in settings.attributes.items()}
    if not attributes.get("type"):
        attributes["type"] = resource.rpartition("/")[2]  # what counts cards by type needs one
    return Card(
        index=-1,
        uuid=f"{resource}/{report.device_id}",
        vendor="bridged",
        type=attributes["type"],
        model=attributes.get("model", ""),
        architecture=attributes.get("architecture", ""),
        memory_mib=Quantity.parse(memory).value // MEBI,
        pci_bus_id=address,
        pcie_root=pci.root,
        pcie_switch=pci.switch,
        driver_version=attributes.get("driverVersion", ""),
        numa_node=pci.numa_node if report.numa_node is None else report.numa_node,
        bridged=Bridged(
            resource=resource,
            device_id=report.device_id,
            name=device_name(resource, report.device_id),
            vendor=settings.vendor or vendor_of(resource),
            ids=report.ids,
            is_shared=report.is_shared,
            attributes={name: text for name, text in attributes.items() if name in settings.attributes},
            capacity=amounts,
        ),
    )


def pci_address(text: str) -> str:
    """The address of a PCI function as the kernel writes it; "" if the text is none.

    >>> pci_address("18:00.0"), pci_address("00000000:AF:00.1"), pci_address("GPU-1")
    ('0000:18:00.0', '0000:af:00.1', '')
    """
    found = _PCI.fullmatch(text)
    return f"{int(found[1] or '0', 16):04x}:{found[2].lower()}" if found else ""


def fits_pattern(device_id: str, settings: ResourceSettings) -> bool:
    """Whether the resource's pattern says something about the device; without a pattern, always."""
    return not settings.id_pattern or re.fullmatch(settings.id_pattern, device_id) is not None


def _groups(device_id: str, settings: ResourceSettings) -> Mapping[str, str | None]:
    found = re.fullmatch(settings.id_pattern, device_id) if settings.id_pattern else None
    return found.groupdict() if found else {}
