"""Checks whether vendors' device plugins have found their way to Lode. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cli.doctor.findings import Finding, ok

_CHECK: Final = "device plugins"
_MOVE: Final = "have its DaemonSet mount the folder {} of the host (docs/deviceplugins.md, move a device plugin)"


@dataclass(frozen=True, slots=True)
class UnfitPattern:
    """A pattern of the settings that says nothing about any device of its resource."""

    pattern: str
    ids: int
    example: str


@dataclass(frozen=True, slots=True)
class ObservedBridge:
    """Facts about device plugins, on a node where the settings serve them."""

    folder: str
    serves: bool
    """Whether somebody listens at ``kubelet.sock`` there."""
    plugins: tuple[str, ...] = ()
    """Sockets of device plugins in the folder."""
    at_kubelet: tuple[str, ...] = ()
    """Sockets of device plugins in the kubelet's folder."""
    unfit: Mapping[str, UnfitPattern] = field(default_factory=dict)
    """By resource."""
    empty: tuple[str, ...] = ()
    """Resources that a device plugin has registered, and of which no device is known."""
    unregistered: tuple[str, ...] = ()
    """Resources that have settings, and that no device plugin has registered since the boot."""


def check_bridge(facts: ObservedBridge | None) -> Iterator[Finding]:
    """All findings; none where the settings serve no device plugins."""
    if facts is None:
        return
    if not facts.serves:
        remedy = "see that the pod of the DaemonSet lode-kubeletplugin runs on this node, and its log"
        yield Finding("failed", _CHECK, facts.folder, "nobody listens at kubelet.sock", remedy)
    elif not facts.plugins:
        yield Finding("warning", _CHECK, facts.folder, "no device plugin uses it", _MOVE.format(facts.folder))
    else:
        yield ok(_CHECK, facts.folder, f"{len(facts.plugins)} in use: {', '.join(facts.plugins)}")
    for name in facts.at_kubelet:
        message = "has registered with the kubelet, not with Lode"
        yield Finding(
            "warning", _CHECK, name, message, f"{_MOVE.format(facts.folder)}, unless the kubelet is to have it"
        )
    for resource, unfit in facts.unfit.items():
        message = f"idPattern {unfit.pattern} fits none of its {unfit.ids} IDs, such as {unfit.example}"
        yield Finding(
            "warning", _CHECK, resource, message, "correct kubeletplugin.deviceplugin.resources of the settings"
        )
    for resource in facts.empty:
        message = "is registered, and its device plugin has listed no device"
        yield Finding("warning", _CHECK, resource, message, "see the log of its device plugin, and its driver")
    for resource in facts.unregistered:
        remedy = "correct its name in kubeletplugin.deviceplugin.resources, or see the log of its device plugin"
        yield Finding("warning", _CHECK, resource, "has settings, and no device plugin has registered it", remedy)
