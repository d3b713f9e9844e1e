"""Finds the node's cards that another driver hands out, by the Node, the slices and the kubelet's answers. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.quantity import Quantity
from kubeletplugin.hardware import Card, CardState
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of, vendor_of_resource
from kubeletplugin.kubelet_devices import KubeletDevices, PluginDevice

_DRIVERS: Final[Mapping[str, Vendor]] = {
    driver: vendor for vendor in EVERY_VENDOR for driver in facts_of(vendor).card_drivers
}


@dataclass(frozen=True, slots=True)
class OtherDevice:
    """A device that another DRA driver publishes on this node."""

    driver: str
    texts: frozenset[str]
    """The values of its attributes, of which one may be the uuid or the PCI address of its card."""


@dataclass(frozen=True, slots=True)
class KnownCard:
    """A card, and its names in other drivers."""

    card: Card
    uuids: frozenset[str]
    """The uuids of the card and of its MIG instances."""


class HandedOutBy(StrEnum):
    """A kind of program that hands out a card; the value of the card's taint. The first of several is told."""

    DEVICE_PLUGIN = "device-plugin"
    """It offers the card to the kubelet now."""
    DRA_DRIVER = "dra-driver"
    PODS = "pods"
    """Containers have the card; who gave it to them may be gone."""


@dataclass(frozen=True, slots=True)
class OtherProgram:
    """A program that hands out a card.

    Attributes:
        text: the program, for people.
    """

    kind: HandedOutBy
    text: str


@dataclass(frozen=True, slots=True)
class _Sign:
    """A device that another driver hands out, or may hand out."""

    vendor: Vendor
    by: OtherProgram
    names: frozenset[str] = field(default_factory=frozenset)
    """Possible names of its card; empty if it can be any card."""


def known_card(card: Card, state: CardState) -> KnownCard:
    """The card, with what exists on it."""
    instances = (each.handle.get("uuid", "") for each in state.found)
    return KnownCard(card, frozenset(uuid for uuid in (card.uuid, *instances) if uuid))


def devices_in(part: Object) -> frozenset[OtherDevice]:
    """The devices of cards in a slice; those of other drivers than the vendors' are left out."""
    spec = part["spec"]
    driver = spec.get("driver", "")
    if driver not in _DRIVERS:
        return frozenset()
    values = (
        frozenset(str(value["string"]) for value in (device.get("attributes") or {}).values() if "string" in value)
        for device in spec.get("devices") or ()
    )
    return frozenset(OtherDevice(driver, texts) for texts in values)


def of_cards(devices: KubeletDevices | None, cards: Iterable[Card]) -> KubeletDevices | None:
    """The part of the kubelet's answer about cards of vendors with a backend of their own, and about these cards."""
    if devices is None:
        return None
    bridged = frozenset(card.bridged.resource for card in cards if card.bridged)

    def matters(device: PluginDevice) -> bool:
        return vendor_of_resource(device.resource) is not None or device.resource in bridged

    return KubeletDevices(
        frozenset(device for device in devices.offered if matters(device)),
        frozenset(device for device in devices.used if matters(device)),
        devices.drivers & _DRIVERS.keys(),
    )


def handed_out(
    cards: Collection[KnownCard],
    node: Object,
    published: Collection[OtherDevice] = (),
    kubelet: KubeletDevices | None = None,
) -> Mapping[str, tuple[OtherProgram, ...]]:
    """The other programs that hand out each card, by the card's name; other cards are left out.

    A device whose name fits no card of its vendor may be any of them. So all cards of the vendor count for a device
    plugin with more devices than the kubelet names. The kubelet does not name unhealthy devices, nor any if it cannot
    be asked.

    Args:
        published: the devices that other drivers publish on this node.
        kubelet: None if it cannot be asked.
    """
    signs = (*_of_node(node, kubelet), *_of_kubelet(kubelet, published), *_of_slices(published))
    found: dict[str, dict[OtherProgram, None]] = {}
    for sign in signs:
        own = [known for known in cards if known.card.vendor == sign.vendor]
        named = [known for known in own if any(_names(name, known) for name in sign.names)]
        for known in named or own:
            found.setdefault(known.card.name, {})[sign.by] = None
    for name, by in _of_bridged(cards, node, kubelet):
        found.setdefault(name, {})[by] = None
    return {name: tuple(by) for name, by in sorted(found.items())}


def _of_bridged(
    cards: Collection[KnownCard], node: Object, kubelet: KubeletDevices | None
) -> Iterator[tuple[str, OtherProgram]]:
    """Signs that the kubelet has the device plugin of a card, or had it and containers still have the card."""
    offered, used = (kubelet.offered, kubelet.used) if kubelet else (frozenset(), frozenset())
    named = Counter(device.resource for device in offered)
    counts = _counts(node, {known.card.bridged.resource for known in cards if known.card.bridged}.__contains__)
    for known in cards:
        if (bridged := known.card.bridged) is None:
            continue
        own = {PluginDevice(bridged.resource, name) for name in bridged.ids}
        if own & offered or counts.get(bridged.resource, 0) > named[bridged.resource]:
            yield known.card.name, _plugin(bridged.resource)
        if own & used:
            yield known.card.name, _pods(bridged.resource)


def resources_in(node: Object) -> Mapping[str, int]:
    """Number of devices of each device plugin for cards, unhealthy ones included; resources without devices are left
    out. Resources that DRA drivers serve are not in a Node's status.

    The kubelet keeps the count for a while after a device plugin ended, so a restarted one keeps its cards.
    """
    return _counts(node, lambda resource: vendor_of_resource(resource) is not None)


def counts_in(node: Object) -> Mapping[str, int]:
    """Number of devices of each device plugin, as ``resources_in``, and also of those that serve no cards."""
    return _counts(node, lambda resource: "/" in resource)


def _counts(node: Object, matters: Callable[[str], bool]) -> Mapping[str, int]:
    status = node.get("status") or {}
    found: dict[str, int] = {}
    for amounts in (status.get("capacity") or {}, status.get("allocatable") or {}):
        for resource, amount in amounts.items():
            if matters(resource) and (count := device_count(amount)):
                found[resource] = max(count, found.get(resource, 0))
    return dict(sorted(found.items()))


def device_count(amount: object) -> int:
    """The number of devices in an amount of a Node or a Pod, which can be written as ``3k``; 0 if it is none."""
    try:
        return max(0, Quantity.parse(str(amount)).value)
    except InvalidInput:
        return 0


def _of_node(node: Object, kubelet: KubeletDevices | None) -> Iterator[_Sign]:
    named = [device.resource for device in kubelet.offered] if kubelet else []
    for resource, count in resources_in(node).items():
        vendor = vendor_of_resource(resource)
        if vendor and count > named.count(resource):
            yield _Sign(vendor, _plugin(resource))


def _of_kubelet(kubelet: KubeletDevices | None, published: Iterable[OtherDevice]) -> Iterator[_Sign]:
    if kubelet is None:
        return
    for devices, by in ((kubelet.offered, _plugin), (kubelet.used, _pods)):
        for device in sorted(devices, key=lambda device: (device.resource, device.id)):
            if vendor := vendor_of_resource(device.resource):
                yield _Sign(vendor, by(device.resource), frozenset([device.id]))
    present = {device.driver for device in published}
    for driver in sorted(kubelet.drivers & _DRIVERS.keys() - present):
        yield _Sign(_DRIVERS[driver], _pods(driver))


def _of_slices(published: Iterable[OtherDevice]) -> Iterator[_Sign]:
    for device in sorted(published, key=lambda device: (device.driver, sorted(device.texts))):
        if vendor := _DRIVERS.get(device.driver):
            by = OtherProgram(HandedOutBy.DRA_DRIVER, f"the DRA driver {device.driver}")
            yield _Sign(vendor, by, device.texts)


def _names(name: str, known: KnownCard) -> bool:
    """Whether a device belongs to a card by its name: plugins add a number to the uuid for each share, and DRA drivers
    publish PCI addresses."""
    if any(uuid in name for uuid in known.uuids) or (name and name == known.card.pci_bus_id):
        return True
    numbered = facts_of(known.card.vendor).numbered_card
    found = numbered.fullmatch(name) if numbered else None
    return found is not None and int(found[1]) == known.card.index


def _plugin(resource: str) -> OtherProgram:
    return OtherProgram(HandedOutBy.DEVICE_PLUGIN, f"the device plugin of {resource}")


def _pods(what: str) -> OtherProgram:
    return OtherProgram(HandedOutBy.PODS, f"pods that have {what}")


def first_of(programs: Iterable[OtherProgram]) -> HandedOutBy:
    """The kind that is told of a card with these programs."""
    kinds = {program.kind for program in programs}
    return next(kind for kind in HandedOutBy if kind in kinds)
