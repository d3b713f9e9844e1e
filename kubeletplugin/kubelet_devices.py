"""What the kubelet says it can give to containers of this node, and what it has given. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device of a device plugin."""

    resource: str
    """``nvidia.com/gpu``"""
    id: str
    """As the device plugin calls it, such as the uuid of a GPU."""


@dataclass(frozen=True, slots=True)
class KubeletClaim:
    """A claim of which a container of this node has devices."""

    namespace: str
    name: str
    cdi_ids: frozenset[str]
    """The ids that the claim's drivers gave the kubelet for these devices."""


@dataclass(frozen=True, slots=True)
class KubeletDevices:
    """Devices that other programs than this one hand out."""

    offered: frozenset[PluginDevice] = frozenset()
    """Healthy devices of the device plugins that are registered."""
    used: frozenset[PluginDevice] = frozenset()
    """What containers have, whether the device plugin is still there or not."""
    drivers: frozenset[str] = frozenset()
    """The names of the DRA drivers of which containers have devices."""
