"""Builds the devices and counter sets that a node offers from its cards and its fabric. Pure.

Each card is offered as up to three kinds of device: whole, share and partitions. All consume one counter set, so no two
kinds can hold the card at once. A card with a single device publishes no counters.

First-fit allocators follow the order of the devices: all whole cards, then all shares, then the partitions card by card
(for the order within a card see ``kubeletplugin.hardware.partitions``).
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from driver.kinds import EVERY_OFFER, KIND_ATTRIBUTE, SHARE_KINDS, DeviceKind, Offer, share_of
from driver.limits import MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES_AND_CAPACITIES
from driver.model import (
    AttributeValue,
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    RequestPolicy,
    Taint,
    Version,
)
from driver.names import LINKS, NUMA_NODE, PCI_BUS_ID, PCIE_ROOT, PCIE_SWITCH, Names
from driver.quantity import Quantity
from driver.settings import HealthTaints, NodeLabels
from kubeletplugin import nvidia_names
from kubeletplugin.hardware import Card, Health, Partition

MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class Fabric:
    """The fabric of the node's cards, by the Node's labels, and what runs its containers; "" where it is not known.

    A label for the fabric overrides the fabric that the hardware reports. The rail that a card reports overrides the
    label, which is the same for the whole node.
    """

    ib_cluster: str = ""
    ib_leaf: str = ""
    rail: str = ""
    container_runtime: str = ""
    """``containerd://2.1.4`` (``status.nodeInfo.containerRuntimeVersion``). It is published, and not recorded."""


def fabric_from(labels: Mapping[str, str], keys: NodeLabels) -> Fabric:
    """The fabric in a Node's labels."""
    return Fabric(labels.get(keys.ib_cluster, ""), labels.get(keys.ib_leaf, ""), labels.get(keys.rail, ""))


def runtime_of(node: Mapping[str, Any]) -> str:
    """What runs the containers of a Node, as the kubelet says it; "" as long as it has not.

    Raises:
        AttributeError: it cannot be decoded.
    """
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion") or "")


def offer_from(label: str) -> tuple[Offer, ...] | None:
    """The offers in a node label, which are joined by ``-``, in publishing order; None if the label is not valid."""
    wanted = label.split("-")
    offer = tuple(kind for kind in EVERY_OFFER if kind in wanted)
    return offer if len(offer) == len(wanted) else None


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """A device as published, with the card and partition behind it."""

    device: Device
    card: Card
    kind: DeviceKind
    partition: Partition | None = None
    """None for a whole card and for shares."""

    @property
    def profile(self) -> str:
        """MIG profile or vNPU template; "" for a whole card and for shares."""
        return self.partition.profile if self.partition else ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices and counter sets of a node, in publishing order."""

    offered: tuple[OfferedDevice, ...]
    counter_sets: tuple[CounterSet, ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices without their cards."""
        return tuple(item.device for item in self.offered)

    @property
    def allocatable(self) -> tuple[OfferedDevice, ...]:
        """The devices that the counters cover while no claim consumes any of them."""
        left = {counters.name: counters.counters for counters in self.counter_sets}
        return tuple(
            item
            for item in self.offered
            if all(
                amount <= left[each.counter_set][name]
                for each in item.device.consumes
                for name, amount in each.counters.items()
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """Restrictions on the devices of cards at the moment."""

    taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)
    """Taints of all devices of a card, by the card's name, and of single devices, by the device's name."""
    withheld: Mapping[str, Collection[Offer]] = field(default_factory=dict)
    """Offers that a card does not have now, by its name (``offers.offer_of``)."""
    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Amounts of a card that other programs consume, by its name and by counter. If there are any, a card without
    counters is not offered at all."""


NO_RESTRICTIONS = Restrictions()


def build_inventory(
    cards: Iterable[Card],
    fabric: Fabric,
    offer: Collection[Offer],
    slots: int,
    names: Names,
    restrictions: Restrictions = NO_RESTRICTIONS,
) -> Inventory:
    """Every device of ``cards`` that ``offer`` includes, with the counter sets they consume.

    Args:
        offer: how cards are offered; a device of a device plugin is offered in one way only.
        slots: the maximum number of tenants of a shared card.
    """
    ordered = sorted(cards, key=lambda card: card.order)
    excluded, consumed = restrictions.withheld, restrictions.taken
    parts = {
        card.name: _parts(card, [kind for kind in _offers(card, offer) if kind not in excluded.get(card.name, ())])
        for card in ordered
    }
    counted = _counted(parts)
    parts |= {name: [] for name, amounts in consumed.items() if amounts and name not in counted}
    builder = _DeviceBuilder(fabric, slots, names, counted, restrictions.taints)
    return Inventory(
        tuple(
            builder.offered(card, kind, partition)
            for group in EVERY_OFFER
            for card in ordered
            for offered_as, kind, partition in parts[card.name]
            if offered_as == group
        ),
        tuple(CounterSet(card.name, _left(card, consumed)) for card in ordered if card.name in counted),
    )


def taints_of(
    health: Mapping[str, Health],
    effects: HealthTaints,
    releasing: Collection[str],
    names: Names,
    served_by_others: Mapping[str, str] | None = None,
) -> dict[str, tuple[Taint, ...]]:
    """The taints of cards and devices, for ``Restrictions``.

    Args:
        health: of cards and partitions, by their names (``CardSource.health``).
        releasing: names of devices that an earlier claim still holds. They get the taint ``<driver>/releasing``
            (NoSchedule).
        served_by_others: the cards that another driver hands out, too, by their names, and what kind of program it is.
            They get the taint ``<driver>/other-driver`` (NoSchedule) with the kind as its value.
    """
    effect_of = {"healthy": "None", "unknown": effects.unknown, "degraded": effects.degraded, "fatal": effects.fatal}
    found: dict[str, tuple[Taint, ...]] = {}
    for name, state in health.items():
        if (effect := effect_of[state.state]) != "None":
            kept = state.away and effect == "NoExecute"  # the pods of the card go on
            found[name] = (Taint(names.unhealthy, effect="NoSchedule" if kept else effect),)
    for name in releasing:
        found[name] = (*found.get(name, ()), Taint(names.attribute("releasing")))
    for name, kind in (served_by_others or {}).items():
        found[name] = (*found.get(name, ()), Taint(names.attribute("other-driver"), kind))
    return found


def find_device(
    device_name: str, cards: Iterable[Card], fabric: Fabric, slots: int, names: Names
) -> OfferedDevice | None:
    """The device of that name, or None if no card of ``cards`` has it.

    Ignores the present offer: a device that was allocated before the operator narrowed the offer is still found.
    """
    if (found := _find(device_name, cards)) is None:
        return None
    card, kind, partition = found
    counted = _counted({card.name: _parts(card, EVERY_OFFER)})
    return _DeviceBuilder(fabric, slots, names, counted, {}).offered(card, kind, partition)


def counter_sets(cards: Iterable[Card]) -> tuple[CounterSet, ...]:
    """The counter sets of cards that are offered in every way, and of which nobody else consumes anything."""
    known = tuple(cards)
    counted = _counted({card.name: _parts(card, EVERY_OFFER) for card in known})
    return tuple(CounterSet(card.name, _left(card, {})) for card in known if card.name in counted)


def has_device(device_name: str, cards: Iterable[Card]) -> bool:
    """Whether ``find_device`` finds the device."""
    return _find(device_name, cards) is not None


def _find(device_name: str, cards: Iterable[Card]) -> tuple[Card, DeviceKind, Partition | None] | None:
    for card in cards:
        if device_name == card.name or device_name.startswith(f"{card.name}-"):
            for _, kind, partition in _parts(card, EVERY_OFFER):
                if _device_name(card, kind, partition) == device_name:
                    return card, kind, partition
    return None


def text_attribute(text: str) -> str:
    """``text`` as a string attribute: unchanged up to 64 bytes; a longer text is cut and ends in a digest.

    Equal texts stay equal and different ones stay different, so selectors and constraints keep their meaning.
    """
    raw = text.encode()
    if len(raw) <= MAX_ATTRIBUTE_BYTES:
        return text
    digest = hashlib.sha256(raw).hexdigest()[:8]
    head = raw[: MAX_ATTRIBUTE_BYTES - len(digest) - 1].decode(errors="ignore")
    return f"{head}~{digest}"


def _offers(card: Card, offer: Collection[Offer]) -> Collection[Offer]:
    return EVERY_OFFER if card.bridged else offer


def _parts(card: Card, offer: Collection[Offer]) -> list[tuple[Offer, DeviceKind, Partition | None]]:
    whole: tuple[Offer, DeviceKind, Partition | None] = ("whole", card.unit, None)
    share: tuple[Offer, DeviceKind, Partition | None] = ("share", share_of(card.unit), None)
    parts = [whole, share] if card.memory_mib else [whole]  # the API refuses a share of nothing, and the slice with it
    if card.bridged:
        parts = [share if card.bridged.is_shared else whole]
    if card.scheme:
        parts += [("partitions", card.scheme.kind, partition) for partition in card.scheme.partitions]
    return [part for part in parts if part[0] in offer]


def _counted(parts: Mapping[str, Sequence[object]]) -> frozenset[str]:
    """The names of the cards that have counters, because more than one device consumes them."""
    return frozenset(name for name, of_card in parts.items() if len(of_card) > 1)


def _device_name(card: Card, kind: DeviceKind, partition: Partition | None) -> str:
    return card.share_name if kind in SHARE_KINDS else card.part_name(partition)


@lru_cache(maxsize=1024)  # many devices have the same
def _mebibytes(amount: int) -> Quantity:
    return Quantity.whole(amount * MEBI, "BinarySI")


@lru_cache(maxsize=1024)
def _number(amount: int) -> Quantity:
    return Quantity.whole(amount)


def _near(card: Card) -> Mapping[str, str]:
    """What is published of its place among the cards besides what every device has. Links that an attribute cannot say
    are left out: half of them would be taken for all."""
    links = ",".join(f"{index}:{number}" for index, number in sorted(card.links.items()))
    known = {LINKS: links if len(links) <= MAX_ATTRIBUTE_BYTES else "", PCIE_SWITCH: card.pcie_switch}
    return {name: text for name, text in known.items() if text}


def _counters(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {name: _mebibytes(n) if name == "memory" else _number(n) for name, n in amounts.items()}


def _totals(card: Card) -> dict[str, Quantity]:
    return _counters(card.counters)


def _left(card: Card, taken: Mapping[str, Mapping[str, int]]) -> dict[str, Quantity]:
    used = taken.get(card.name, {})
    return _counters({name: amount - used.get(name, 0) for name, amount in card.counters.items()})


def _shareable(
    value: Quantity, default: Quantity, minimum: Quantity, step: Quantity, *, capped: bool = False
) -> Capacity:
    # The API rejects a step that does not fit between the minimum and the value (validRange).
    fits = minimum + step <= value
    return Capacity(
        value,
        RequestPolicy(default=default, minimum=minimum, maximum=value if capped else None, step=step if fits else None),
    )


@dataclass(frozen=True, slots=True)
class _DeviceBuilder:
    fabric: Fabric
    slots: int
    names: Names
    counted: frozenset[str]
    taints: Mapping[str, tuple[Taint, ...]]

    def offered(self, card: Card, kind: DeviceKind, partition: Partition | None) -> OfferedDevice:
        consumed = _counters(partition.draws) if partition else _totals(card)
        name = _device_name(card, kind, partition)
        attributes, capacity = self._attributes(card, kind, partition), self._capacity(card, kind, partition)
        others = nvidia_names.attributes_of(card, kind, partition) if self.names.nvidia_dra else {}
        # A device with names of NVIDIA's driver, or with those that settings give it, has no room for it.
        if self.fabric.container_runtime and not others and not card.bridged:
            attributes[self.names.attribute("containerRuntime")] = text_attribute(self.fabric.container_runtime)
        if others:
            capacity |= nvidia_names.capacity_of(kind, partition, capacity["memory"].value)
            room = MAX_ATTRIBUTES_AND_CAPACITIES - len(attributes) - len(capacity)
            attributes |= {
                name: text_attribute(value) if isinstance(value, str) else value
                for name, value in list(others.items())[:room]
            }
        if partition is None:
            room = MAX_ATTRIBUTES_AND_CAPACITIES - len(attributes) - len(capacity)
            attributes |= {self.names.attribute(name): text for name, text in list(_near(card).items())[:room]}
        device = Device(
            name=name,
            attributes=attributes,
            capacity=capacity,
            consumes=(CounterConsumption(card.name, consumed),) if card.name in self.counted else (),
            taints=self._taints(card, name),
            allow_multiple=kind in SHARE_KINDS,
        )
        return OfferedDevice(device, card, kind, partition)

    def _taints(self, card: Card, device: str) -> tuple[Taint, ...]:
        """The taints of the card and those of the device. A whole card has the name of its card."""
        found = self.taints.get(card.name, ())
        return found if device == card.name else tuple(dict.fromkeys((*found, *self.taints.get(device, ()))))

    def _attributes(self, card: Card, kind: DeviceKind, partition: Partition | None) -> dict[str, AttributeValue]:
        own: dict[str, AttributeValue] = {
            KIND_ATTRIBUTE: kind,
            "vendor": text_attribute(card.bridged.vendor) if card.bridged else card.vendor,
            "type": text_attribute(card.type),
            "model": text_attribute(card.model),
            "architecture": text_attribute(card.architecture),
            "uuid": text_attribute(card.uuid),
            "index": card.index,
            "numaNode": -1 if card.numa_node is None else card.numa_node,
            "ibCluster": text_attribute(self.fabric.ib_cluster or card.ib_cluster),
            "ibLeaf": text_attribute(self.fabric.ib_leaf),
            "rail": text_attribute(card.rail or self.fabric.rail),
            "profile": partition.profile if partition else "",
            "driverVersion": text_attribute(card.driver_version),
            "computeCapability": Version(card.compute_capability),
            "cudaVersion": Version(card.cuda_version),
            "nvlinkDomain": text_attribute(card.nvlink_domain),
        }
        if card.bridged:
            own |= {"resource": text_attribute(card.bridged.resource)}
            own |= {"deviceID": text_attribute(card.bridged.device_id)}
            own |= {name: text_attribute(value) for name, value in card.bridged.attributes.items()}
        attributes = {self.names.attribute(name): value for name, value in own.items()}
        if card.pcie_root:
            attributes[PCIE_ROOT] = card.pcie_root
        if card.pci_bus_id:
            attributes[PCI_BUS_ID] = card.pci_bus_id
        if card.numa_node is not None:
            attributes[NUMA_NODE] = card.numa_node
        return attributes

    def _capacity(self, card: Card, kind: DeviceKind, partition: Partition | None) -> dict[str, Capacity]:
        if partition:
            return {
                "memory": Capacity(_mebibytes(partition.memory_mib)),
                "cores": Capacity(_number(partition.cores)),
                **{name: Capacity(_number(amount)) for name, amount in partition.sizes.items()},
            }
        memory, percent = _mebibytes(card.memory_mib), _number(100)
        others = dict(card.bridged.capacity) if card.bridged else {}
        mapped = {name: Capacity(Quantity.parse(text)) for name, text in others.items()}
        if kind not in SHARE_KINDS:
            return {"memory": Capacity(memory), "cores": Capacity(percent), **mapped}
        one, none = _number(1), _number(0)
        slots, default, least = self.slots, memory, _mebibytes(1)
        if card.bridged:
            # A tenant has a replica of the device, and nothing is known of the memory that it may use.
            slots = len(card.bridged.ids)
            default = least = _mebibytes(card.memory_mib // slots)
            mapped = {name: _shareable(each.value, none, none, one) for name, each in mapped.items()}
        return {
            "memory": _shareable(memory, default, least, _mebibytes(1)),
            "cores": _shareable(percent, none, none, one, capped=True),
            "slots": _shareable(_number(slots), one, one, one),
            **mapped,
        }
