"""Devices of vendors' device plugins in a profile: what a device plugin reports, and what the settings say. Pure.

The cards are made as the backend of device plugins makes them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from driver.deviceplugins import ResourceSettings
from kubeletplugin.hardware.card import Bridged, Card
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of, pci_address, vendor_of
from kubeletplugin.hardware.deviceplugin.reported import Replicas, Reported, ReportedCard, card_reports
from kubeletplugin.hardware.place import Place

_DOMAIN: Final = "[0-9a-f]{4,8}"
"""VMD and Hyper-V have domains above ffff."""
PciBusID = Annotated[str, Field(pattern=rf"^({_DOMAIN}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-9a-f])?$")]
PcieRoot = Annotated[str, Field(pattern=rf"^(pci{_DOMAIN}:[0-9a-f]{{2}})?$")]
NumaNode = Annotated[int, Field(ge=0, le=1023)]
_REPLICAS: Final[tuple[Replicas, ...]] = ("auto", "none", "dashed", "equal")
assert set(_REPLICAS) == set(get_args(Replicas))


class DeviceEntry(BaseModel):
    """An ID that a device plugin reports, with what the kernel says of the device."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    id: str = Field(min_length=1, max_length=253)
    numa_node: NumaNode | None = None
    pci_bus_id: PciBusID = Field(default="", alias="pciBusID")
    """By default, what the ID or the settings' pattern says."""
    pcie_root: PcieRoot = ""
    pcie_switch: PciBusID = ""
    ib_cluster: str = Field(default="", max_length=64)
    rail: str = Field(default="", max_length=64)


class ResourceEntry(BaseModel):
    """The device plugin of one resource."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: ResourceSettings = ResourceSettings()
    """As in ``kubeletplugin.deviceplugin.resources``."""
    devices: tuple[DeviceEntry, ...] = Field(min_length=1)


def bridged_cards(resource: str, entry: ResourceEntry, labels: Mapping[str, str]) -> Iterator[Card]:
    """The cards of a resource.

    Args:
        labels: of the node.
    """
    node = LabelledNode(labels, lambda _: Place())
    known = {device.id: device for device in entry.devices}
    reported = [Reported(device.id, numa_node=device.numa_node) for device in entry.devices]
    for report in card_reports(reported, entry.settings.replicas):
        card, devices = card_of(resource, report, entry.settings, node), [known[name] for name in report.ids]
        yield replace(
            card,
            pci_bus_id=_first(device.pci_bus_id for device in devices) or card.pci_bus_id,
            pcie_root=_first(device.pcie_root for device in devices),
            pcie_switch=_first(device.pcie_switch for device in devices),
            ib_cluster=_first(device.ib_cluster for device in devices),
            rail=_first(device.rail for device in devices),
        )


def entries_of(cards: Iterable[Card]) -> Mapping[str, Mapping[str, Any]]:
    """The device plugins with these cards, by resource, as ``ResourceEntry`` reads them."""
    of_resource: dict[str, list[tuple[Card, Bridged]]] = {}
    for card in cards:
        if card.bridged:
            of_resource.setdefault(card.bridged.resource, []).append((card, card.bridged))
    return {resource: _entry(resource, found) for resource, found in sorted(of_resource.items())}


def _entry(resource: str, cards: Sequence[tuple[Card, Bridged]]) -> Mapping[str, Any]:
    vendors = {bridged.vendor for _, bridged in cards} - {vendor_of(resource)}
    amounts = {
        bridged.device_id: {**({"memory": f"{card.memory_mib}Mi"} if card.memory_mib else {}), **bridged.capacity}
        for card, bridged in cards
    }
    settings: dict[str, Any] = {
        "vendor": next(iter(vendors), ""),
        "replicas": _replicas([bridged for _, bridged in cards]),
        "attributes": _sources({bridged.device_id: bridged.attributes for _, bridged in cards}),
        "capacity": _sources(amounts),
    }
    return {
        "settings": {name: value for name, value in settings.items() if value and value != "auto"},
        "devices": [_device(card, bridged, name) for card, bridged in cards for name in bridged.ids],
    }


def _device(card: Card, bridged: Bridged, name: str) -> Mapping[str, Any]:
    address = "" if card.pci_bus_id == pci_address(bridged.device_id) else card.pci_bus_id
    found = {
        "id": name,
        "pciBusID": address,
        "pcieRoot": card.pcie_root,
        "pcieSwitch": card.pcie_switch,
        "numaNode": card.numa_node,
        "ibCluster": card.ib_cluster,
        "rail": card.rail,
    }
    return {key: value for key, value in found.items() if value not in ("", None)}


def _replicas(cards: Sequence[Bridged]) -> Replicas:
    """The setting by which the IDs of these cards make the same cards."""
    wanted = sorted((card.device_id, card.ids, card.is_shared) for card in cards)
    reported = [Reported(name) for card in cards for name in card.ids]

    def made(report: ReportedCard) -> tuple[str, tuple[str, ...], bool]:
        return report.device_id, report.ids, report.is_shared

    fitting = (one for one in _REPLICAS if sorted(map(made, card_reports(reported, one))) == wanted)
    return next(fitting, "auto")


def _sources(values: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, Any]]:
    """Where the values come from that cards have, by the IDs of the cards: one value for all, or a table."""
    found = {}
    for name in dict.fromkeys(name for one in values.values() for name in one):
        table = {device: one[name] for device, one in values.items() if name in one}
        same = set(table.values()) if len(table) == len(values) else set()
        found[name] = {"value": table.popitem()[1]} if len(same) == 1 and "" not in same else {"table": table}
    return found


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")
