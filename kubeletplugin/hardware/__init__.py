"""The node's accelerators behind a port: cards, their partitions, and the backends that report them."""

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.port import DeviceNode, Hardware, Health

__all__ = ["Card", "DeviceNode", "Hardware", "Health", "Partition", "Scheme"]
