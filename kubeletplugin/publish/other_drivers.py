"""Signs that another program hands out cards of the node, in the Node, the slices and the kubelet's answers. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.quantity import Quantity
from kubeletplugin.hardware import Card, CardState
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of, vendor_of_resource
from kubeletplugin.kubelet_devices import KubeletDevices

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

    @property
    def group(self) -> str:
        """See ``Sign``."""
        return self.card.bridged.resource if self.card.bridged else self.card.vendor


class HandedOutBy(StrEnum):
    """A kind of program that hands out a card; the value of the card's taint. The first of several is told."""

    DEVICE_PLUGIN = "device-plugin"
    """It offers the card to the kubelet now."""
    DRA_DRIVER = "dra-driver"
    PODS = "pods"
    """Containers have the card; who gave it to them may be gone."""
    UNKNOWN = "unknown"
    """The kubelet, which would know it, does not say so."""


@dataclass(frozen=True, slots=True)
class OtherProgram:
    """A program that hands out a card.

    Attributes:
        text: the program, for people.
    """

    kind: HandedOutBy
    text: str


NOT_HEARD: Final = OtherProgram(HandedOutBy.UNKNOWN, "whatever the kubelet gives cards to: it has not answered yet")


@dataclass(frozen=True, slots=True)
class Sign:
    """A device that another program hands out, or may hand out.

    Attributes:
        group: the vendor of its card, or, for a device plugin that this program serves, too, the resource.
        names: possible names of its card; empty if it can be any card of the group.
    """

    group: str
    by: OtherProgram
    names: tuple[str, ...] = ()


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


def signs_of_kubelet(
    kubelet: KubeletDevices, published: Collection[OtherDevice], resources: Collection[str]
) -> Iterator[Sign]:
    """The signs that the kubelet names itself.

    Args:
        published: the devices that other drivers publish on this node.
        resources: those of device plugins that this program serves, too.
    """
    for devices, by in ((kubelet.offered, _plugin), (kubelet.used, _pods)):
        for device in devices:
            if vendor := vendor_of_resource(device.resource):
                yield Sign(vendor, by(device.resource), (device.id,))
            if device.resource in resources:
                yield Sign(device.resource, by(device.resource), (device.id,))
    present = {device.driver for device in published}
    for driver in kubelet.drivers & _DRIVERS.keys() - present:
        yield Sign(_DRIVERS[driver], _pods(driver))


def signs_in_api(
    node: Object, published: Iterable[OtherDevice], kubelet: KubeletDevices | None, resources: Collection[str]
) -> Iterator[Sign]:
    """The signs in the Node, which counts the devices of the kubelet, and in the slices of other drivers.

    A device plugin with more devices than the kubelet names may have any card: the kubelet does not name unhealthy
    devices.

    Args:
        kubelet: None if it has not answered yet.
    """
    named = Counter(device.resource for device in kubelet.offered) if kubelet else Counter[str]()
    counts = _counts(node, lambda resource: resource in resources or vendor_of_resource(resource) is not None)
    for resource, count in counts.items():
        if count > named[resource]:
            groups = (vendor_of_resource(resource), resource if resource in resources else None)
            yield from (Sign(group, _plugin(resource)) for group in groups if group)
    for device in published:
        if vendor := _DRIVERS.get(device.driver):
            by = OtherProgram(HandedOutBy.DRA_DRIVER, f"the DRA driver {device.driver}")
            yield Sign(vendor, by, tuple(sorted(device.texts)))


def handed_out(cards: Collection[KnownCard], signs: Iterable[Sign]) -> Mapping[str, tuple[OtherProgram, ...]]:
    """The other programs that hand out each card, by the card's name; other cards are left out.

    A device of a vendor whose name fits no card may be any of the vendor's. One of a device plugin that this program
    serves, too, has the names that the card was published with, so it is none of them.
    """
    found: dict[str, set[OtherProgram]] = {}
    for sign in signs:
        own = [known for known in cards if known.group == sign.group]
        named = [known for known in own if any(_names(name, known) for name in sign.names)]
        may_be_any = not sign.names or sign.group in EVERY_VENDOR
        for known in named or (own if may_be_any else ()):
            found.setdefault(known.card.name, set()).add(sign.by)
    return {name: tuple(sorted(by, key=_order)) for name, by in sorted(found.items())}


def _order(program: OtherProgram) -> tuple[int, str]:
    return [*HandedOutBy].index(program.kind), program.text


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


def _names(name: str, known: KnownCard) -> bool:
    """Whether a device belongs to a card by its name: plugins add a number to the uuid for each share, and DRA drivers
    publish PCI addresses."""
    if known.card.bridged:
        return name in known.card.bridged.ids
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
