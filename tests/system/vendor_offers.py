"""What a plugin offers over the time of a history, beside what is true."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from driver.model import AttributeValue, Capacity, CounterSet, Device, Version
from driver.quantity import Quantity
from kubeletplugin.inventory import Inventory
from tests.system.vendor_pods import parts_of

_UNKNOWN: tuple[AttributeValue, ...] = ("", "unknown", -1, Version("0.0.0"))
"""Values of attributes that are not known."""
_NOTHING = Quantity.whole(0, "BinarySI")


@dataclass(frozen=True, slots=True)
class _Offered:
    devices: Mapping[str, Device] = field(default_factory=dict)
    """By name; without taints, which are not about what a card is."""
    sets: Mapping[str, CounterSet] = field(default_factory=dict)

    @classmethod
    def of(cls, inventory: Inventory) -> "_Offered":
        devices = {device.name: replace(device, taints=()) for device in inventory.devices}
        return cls(devices, {each.name: each for each in inventory.counter_sets})


class Offers:
    """What is offered now, and what has been true since the plugin last knew all of it."""

    def __init__(self) -> None:
        self._now = _Offered()
        self._failed: frozenset[str] = frozenset()
        """Names of the cards that had failed when this was offered."""
        self._true: list[_Offered] = []
        self._ever: set[str] = set()

    def true(self, inventory: Inventory) -> None:
        """Note what is true now."""
        offered = _Offered.of(inventory)
        if offered not in self._true:
            self._true.append(offered)
        self._ever |= offered.devices.keys()

    def settled(self, inventory: Inventory) -> None:
        """Note that the plugin knows what is true now."""
        self._true = [_Offered.of(inventory)]

    def started(self) -> None:
        """Note that a new plugin has started, which knows nothing."""
        self._now = _Offered()

    def forgets(self, inventory: Inventory) -> Sequence[str]:
        """What has been offered last of devices, is still true, and would not be offered any more with these.

        A card that failed may be one of an earlier run of the plugin, and what was known of it too.
        """
        devices, true = _Offered.of(inventory).devices, self._true[-1].devices
        return [
            f"{name} of {device}: {value}"
            for device, before in self._now.devices.items()
            if device in devices and device in true and parts_of(device)[0] not in self._failed
            for name, value in before.attributes.items()
            if value == true[device].attributes.get(name) and devices[device].attributes.get(name) != value
        ]

    def publish(self, inventory: Inventory, failed: frozenset[str]) -> Sequence[str]:
        """Note what is offered; returns what of it was not true at any time since the plugin last knew everything.

        Args:
            failed: names of the cards whose devices have a taint, and are there for those that have them.
        """
        self._now, self._failed = _Offered.of(inventory), failed
        self._ever |= self._now.devices.keys()
        divided = {
            each.counter_set for device in self._now.devices.values() if _is_part(device) for each in device.consumes
        }
        fitting = [it.device.name for it in inventory.allocatable if it.card.name not in failed]
        unknown = [name for name in fitting if not self._was_true(self._now.devices[name], divided)]
        counters = [self._now.sets[name] for name in divided - failed if not self._had(self._now.sets[name])]
        return [*unknown, *(f"counters of {each.name}: {each.counters}" for each in counters)]

    def is_true(self, device: str) -> bool:
        """Whether the device should be offered now."""
        return device in self._true[-1].devices

    def difference(self, inventory: Inventory) -> str:
        """How what is offered differs from this; "" if it does not."""
        wanted, now = _Offered.of(inventory), self._now
        if wanted == now:
            return ""
        missing, more = wanted.devices.keys() - now.devices.keys(), now.devices.keys() - wanted.devices.keys()
        other = [
            f"{device} instead of {wanted.devices[name]}"
            for name, device in now.devices.items()
            if name in wanted.devices and device != wanted.devices[name]
        ]
        return f"missing {sorted(missing)}, more {sorted(more)}, other {other[:2]}, counters {now.sets != wanted.sets}"

    def ever(self) -> Sequence[str]:
        """The names of all devices that were offered at some time."""
        return sorted(self._ever)

    def free(self, held: Collection[str]) -> Sequence[str]:
        """The names of the offered devices that have room beside these. An allocator counts a device only if it is
        offered."""
        left: dict[tuple[str, str], Quantity] = {
            (each.name, counter): amount
            for each in self._now.sets.values()
            for counter, amount in each.counters.items()
        }
        for name in set(held) & self._now.devices.keys():
            for key, amount in _consumed(self._now.devices[name]):
                left[key] = left.get(key, Quantity(0)) - amount
        return [
            name
            for name, device in self._now.devices.items()
            if (device.allow_multiple and name in held)
            or (name not in held and all(amount <= left[key] for key, amount in _consumed(device)))
        ]

    def _was_true(self, device: Device, divided: Collection[str]) -> bool:
        return any(
            device.name in true.devices and _is_known(device, true.devices[device.name], divided) for true in self._true
        )

    def _had(self, counters: CounterSet) -> bool:
        """Whether a card had as much at some time, or more."""
        return any(
            counters.name in true.sets and _covers(true.sets[counters.name].counters, counters.counters)
            for true in self._true
        )


def _covers(amounts: Mapping[str, Quantity], others: Mapping[str, Quantity]) -> bool:
    return amounts.keys() == others.keys() and all(others[name] <= amount for name, amount in amounts.items())


def _is_part(device: Device) -> bool:
    return not device.allow_multiple and device.name.count("-") > 1


def _consumed(device: Device) -> Iterable[tuple[tuple[str, str], Quantity]]:
    for each in device.consumes:
        for counter, amount in each.counters.items():
            yield (each.counter_set, counter), amount


def _is_known(device: Device, true: Device, divided: Collection[str]) -> bool:
    """Whether everything that is said of a device is true, or said to be unknown.

    What a whole card consumes is all of it, and matters only beside partitions.

    Args:
        divided: the counter sets of the cards with partitions.
    """
    attributes = all(value in (true.attributes.get(name), *_UNKNOWN) for name, value in device.attributes.items())
    amounts = all(each in (true.capacity.get(name), Capacity(_NOTHING)) for name, each in device.capacity.items())
    alone = not any(each.counter_set in divided for each in device.consumes)
    return attributes and amounts and (alone or device.consumes == true.consumes)
