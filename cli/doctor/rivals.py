"""Which cards of Lode another DRA driver publishes, too, by what both say about them. Pure.

Drivers name a card by its uuid or its PCI address. Huawei's says the physical id only, which is our ``index``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.doctor.findings import Finding, some
from driver.device_facts import card_of
from driver.kinds import share_of
from driver.kube.api import Object
from driver.names import PCI_BUS_ID, Names
from kubeletplugin.hardware.vendors import facts_of

_NAMING: Final = frozenset(("uuid", "parentuuid", "pcibusid", "pciaddr", "pciaddress"))
"""Attributes that name a card, without the driver's domain, in lower case."""
_NUMBER: Final = "physicId"
_NUMBERED: Final = facts_of("huawei")


@dataclass(slots=True)
class CardsOfNode:
    """The cards that Lode and other drivers publish on a node.

    Attributes:
        names: our card by each of its names.
        closed: our cards that new claims do not get while another driver has them.
        others: by driver, the names of its cards.
    """

    names: dict[str, str] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    others: dict[str, set[str]] = field(default_factory=dict)

    def add_own(self, part: Object, names: Names) -> None:
        """Add the devices of a slice of ours. Raises what ``SENSELESS`` has."""
        for device in part["spec"].get("devices") or ():
            attributes, card = _plain(device, names), card_of(str(device["name"]))
            kind, number = _value(attributes, "kind"), _value(attributes, "index")
            found = [_value(attributes, "uuid"), _value(attributes, PCI_BUS_ID)]
            if str(kind) in (_NUMBERED.kind, share_of(_NUMBERED.kind), _NUMBERED.partition_kind):
                found.append(_numbered(number))
            self.names |= {name: card for name in found if isinstance(name, str) and name}
            if any(taint["key"] == names.attribute("other-driver") for taint in device.get("taints") or ()):
                self.closed.add(card)

    def add_other(self, part: Object) -> None:
        """Add the devices of a slice of another driver. Raises what ``SENSELESS`` has."""
        driver = str(part["spec"]["driver"])
        found = self.others.setdefault(driver, set())
        for device in part["spec"].get("devices") or ():
            for name, value in (device.get("attributes") or {}).items():
                last = name.rpartition("/")[2]
                if last.lower() in _NAMING and "string" in value:
                    found.add(str(value["string"]))
                elif last == _NUMBER and driver in _NUMBERED.card_drivers:
                    found.add(_numbered(value.get("int")))

    def twice(self) -> Iterator["TwiceOffered"]:
        """The cards of ours that another driver publishes, for each driver that does."""
        for driver, names in sorted(self.others.items()):
            cards = {self.names[name] for name in self.names.keys() & names}
            if cards:
                yield TwiceOffered(driver, tuple(sorted(cards)), is_closed=cards <= self.closed)


@dataclass(frozen=True, slots=True)
class TwiceOffered:
    """Cards that another driver publishes beside us on a node.

    Attributes:
        is_closed: whether new claims for devices of ours do not get them.
    """

    driver: str
    cards: tuple[str, ...]
    is_closed: bool


def check_twice(nodes: Iterable[tuple[str, Sequence[TwiceOffered], int]]) -> Iterator[Finding]:
    """Yield what is wrong with cards that are offered twice.

    Nothing keeps another driver from cards that claims of ours hold.

    Args:
        nodes: the name of each, its cards, and the number of claims that hold devices of ours there.
    """
    found: dict[tuple[str, bool], dict[str, tuple[str, ...]]] = {}
    for node, offered, claims in nodes:
        for one in offered:
            found.setdefault((one.driver, one.is_closed and not claims), {})[node] = one.cards
    for (driver, is_closed), cards in sorted(found.items()):
        remedy = (
            f"let one driver serve the cards of a node: remove {driver} there, or keep Lode off these nodes "
            "(kubectl label node NODE lode.dev/kubeletplugin=off)"
        )
        such = some([f"{node}/{card}" for node, names in cards.items() for card in names])
        message = f"the DRA driver {driver} publishes the same cards as Lode: {such}; "
        if is_closed:
            message += "claims of Lode do not get them meanwhile"
            yield Finding("warning", "other drivers", some([*cards]), message, remedy)
        else:
            message += "one card can be in two hands"
            yield Finding("failed", "other drivers", some([*cards]), message, remedy)


def _plain(device: Object, names: Names) -> Mapping[str, Any]:
    """The attributes of a device of ours, without the driver's domain."""
    return {name.removeprefix(names.attribute("")): value for name, value in (device.get("attributes") or {}).items()}


def _value(attributes: Mapping[str, Any], name: str) -> object:
    return next(iter((attributes.get(name) or {}).values()), None)


def _numbered(number: object) -> str:
    return f"{_NUMBERED.kind} {number}" if isinstance(number, int) else ""
