"""The DRA plugin of a driver as a kubelet reaches it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver.errors import LodeError


@dataclass(frozen=True, slots=True)
class ClaimName:
    """A claim as a kubelet names it to a plugin."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClaimResponse:
    """A plugin's response for one claim."""

    error: str = ""
    cdi_ids: tuple[str, ...] = ()


class PluginDown(LodeError):
    """No plugin of the driver is registered, or the call failed."""


class DraPlugin(Protocol):
    """The driver's plugin as the kubelet calls it. Every method may raise PluginDown."""

    def registered(self) -> None:
        """Called when the kubelet has registered the plugin, and again after either of the two restarts."""

    def prepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodePrepareResources; responses by claim uid."""

    def unprepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodeUnprepareResources; responses by claim uid."""
