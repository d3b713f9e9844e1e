"""Backends of cards, offers, kinds of devices, and severities of faults. Pure.

A backend is a value of the setting ``kubeletplugin.hardware``, and an offer one of ``kubeletplugin.offer``. A kind is a
value of the attribute ``<driver>/kind`` and of the label ``kind`` of metrics.
"""

from typing import Final, Literal, assert_never, get_args

Backend = Literal["nvidia", "ascend"]
"""The code that serves the cards of a vendor."""

Offer = Literal["whole", "share", "partitions"]

Severity = Literal["healthy", "degraded", "fatal"]
"""The meaning of a fault for a card; a ``healthy`` one is ignored."""

EVERY_OFFER: Final[tuple[Offer, ...]] = get_args(Offer)
"""All offers, in the order in which devices are published."""

WholeKind = Literal["gpu", "npu"]
ShareKind = Literal["gpu-share", "npu-share"]
PartitionKind = Literal["mig", "vnpu"]
DeviceKind = WholeKind | ShareKind | PartitionKind

WHOLE_KINDS: Final[tuple[WholeKind, ...]] = get_args(WholeKind)
SHARE_KINDS: Final[tuple[ShareKind, ...]] = get_args(ShareKind)

KIND_ATTRIBUTE: Final = "kind"
"""The attribute that holds a device's kind, without the driver's domain."""
UNKNOWN_KIND: Final = "unknown"
"""The kind that metrics report for a device without that attribute."""


def share_of(kind: WholeKind) -> ShareKind:
    """The kind of a share of such a card."""
    match kind:
        case "gpu":
            return "gpu-share"
        case "npu":
            return "npu-share"
        case _:
            assert_never(kind)
