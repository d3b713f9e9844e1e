"""Backends of cards, offers, kinds of devices, severities of faults, and the states of cards. Pure.

A backend is a value of the setting ``kubeletplugin.hardware``, and an offer one of ``kubeletplugin.offer``. A kind is a
value of the attribute ``<driver>/kind`` and of the label ``kind`` of metrics.
"""

from collections.abc import Iterable
from typing import Final, Literal, assert_never, get_args

Backend = Literal["nvidia", "ascend", "deviceplugin"]
"""The code that serves the cards of a vendor, or the devices of any vendor's device plugins."""

Offer = Literal["whole", "share", "partitions"]

Severity = Literal["healthy", "degraded", "fatal"]
"""The meaning of a fault for a card; a ``healthy`` one is ignored."""

EVERY_OFFER: Final[tuple[Offer, ...]] = get_args(Offer)
"""All offers, in the order in which devices are published."""

WholeKind = Literal["gpu", "npu", "device"]
ShareKind = Literal["gpu-share", "npu-share", "device-share"]
PartitionKind = Literal["mig", "vnpu"]
DeviceKind = WholeKind | ShareKind | PartitionKind

WHOLE_KINDS: Final[tuple[WholeKind, ...]] = get_args(WholeKind)
SHARE_KINDS: Final[tuple[ShareKind, ...]] = get_args(ShareKind)

KIND_ATTRIBUTE: Final = "kind"
"""The attribute that holds a device's kind, without the driver's domain."""
UNKNOWN_KIND: Final = "unknown"
"""The kind that metrics report for a device without that attribute."""


CardUse = Literal["free", "whole", "shared", "partitioned"]
"""What a card is in: nobody holds it, or claims hold the whole card, shares or partitions of it."""
Closure = Literal["cordoned", "releasing", "unhealthy", "foreign", "unpublished"]
"""Why no claim gets anything of a card: an operator has closed it, an earlier claim is not off it yet, it does not
work, another program has it, or its node does not publish it any more."""
CardState = CardUse | Closure

CARD_STATES: Final[tuple[CardState, ...]] = (*get_args(CardUse), *get_args(Closure))
"""What is later goes before what is earlier, where a card has one state."""
_FOR_THE_NEXT: Final[frozenset[CardState]] = frozenset(("cordoned", "releasing"))
"""Closures that concern the next claim, not the one that holds the card."""


def card_state(use: CardUse, closures: Iterable[Closure]) -> CardState:
    """Return the one state of a card: what closes it goes before what it is in, unless only the next claim minds."""
    telling = (one for one in closures if use == "free" or one not in _FOR_THE_NEXT)
    return max((use, *telling), key=CARD_STATES.index)


def share_of(kind: WholeKind) -> ShareKind:
    """The kind of a share of such a card."""
    match kind:
        case "gpu":
            return "gpu-share"
        case "npu":
            return "npu-share"
        case "device":
            return "device-share"
        case _:
            assert_never(kind)
