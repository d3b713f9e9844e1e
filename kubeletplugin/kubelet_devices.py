"""Devices that the kubelet can give and has given to containers, as values. Pure."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device of a device plugin."""

    resource: str
    """``nvidia.com/gpu``"""
    id: str
    """Name of the device in its device plugin, such as the uuid of a GPU."""


@dataclass(frozen=True, slots=True)
class KubeletClaim:
    """A claim with devices in a container of this node."""

    namespace: str
    name: str
    cdi_ids: frozenset[str]
    """The ids that the claim's drivers gave the kubelet for these devices."""
    pod: str = ""
    """In the namespace of the claim."""
    container: str = ""


@dataclass(frozen=True, slots=True)
class KubeletDevices:
    """Devices that other programs than this one hand out."""

    offered: frozenset[PluginDevice] = frozenset()
    """Healthy devices of the device plugins that are registered."""
    used: frozenset[PluginDevice] = frozenset()
    """Devices of running containers, also if their device plugin has ended."""
    drivers: frozenset[str] = frozenset()
    """Names of the DRA drivers with devices in running containers."""
    run: str = ""
    """Which run of the kubelet says so. One that has just started does not know its device plugins and pods yet."""


@dataclass(frozen=True, slots=True)
class SilentKubelet:
    """The kubelet did not answer this time. What it hands out is as unknown as if it had not been asked."""

    has_socket: bool = True
    """Whether its socket is there, so that there is one that could answer."""


KubeletAnswer: TypeAlias = KubeletDevices | SilentKubelet
