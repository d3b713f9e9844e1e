"""What a card is offered as, and the kinds of device that come of it. Pure.

An offer is a value of the setting ``kubeletplugin.offer``. A kind is a value of the attribute ``<driver>/kind`` and of
the label ``kind`` of metrics.
"""

from collections.abc import Mapping
from typing import Final, Literal

Offer = Literal["whole", "share", "partitions"]

EVERY_OFFER: Final[tuple[Offer, ...]] = ("whole", "share", "partitions")
"""In the order in which devices are published."""

WholeKind = Literal["gpu", "npu"]
ShareKind = Literal["gpu-share", "npu-share"]
PartitionKind = Literal["mig", "vnpu"]
DeviceKind = WholeKind | ShareKind | PartitionKind

WHOLE_KINDS: Final[tuple[WholeKind, ...]] = ("gpu", "npu")
SHARE_OF: Final[Mapping[WholeKind, ShareKind]] = {"gpu": "gpu-share", "npu": "npu-share"}
"""The kind of a share, by the kind of the whole card."""
SHARE_KINDS: Final[tuple[ShareKind, ...]] = tuple(SHARE_OF.values())

KIND_ATTRIBUTE: Final = "kind"
"""The attribute that holds a device's kind, without the driver's domain."""
UNKNOWN_KIND: Final = "unknown"
"""The kind that metrics report for a device without that attribute."""
