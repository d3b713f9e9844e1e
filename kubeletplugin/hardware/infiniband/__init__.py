"""The InfiniBand fabric that the node's cards are attached to, as its host channel adapters (HCAs) report it."""

from kubeletplugin.hardware.infiniband.attached import AttachedHardware

__all__ = ["AttachedHardware"]
