"""The node's accelerators behind a port: what a card is, how it can be cut, and the backends that report cards."""

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.port import DeviceNode, Hardware, Health

__all__ = ["Card", "DeviceNode", "Hardware", "Health", "Partition", "Scheme"]
