"""Looks at the device plugins of the node that this runs on."""

import posixpath
from collections.abc import Iterator
from pathlib import Path

from cli.doctor.bridge_checks import ObservedBridge, UnfitPattern
from driver.files import SystemFiles
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.mapping import fits_pattern
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.deviceplugin.reported import card_reports
from kubeletplugin.sockets import has_listener, is_socket

_HOST = "kubelet.sock"


def look_at_bridge(settings: Settings, root: Path, boot_id: str) -> ObservedBridge | None:
    """Read the facts; None where the settings serve no device plugins and no program does.

    The settings of the node may not be at hand, as in a debug container. A program that runs is looked at all the same.

    Args:
        root: where the node's file system is mounted.
        boot_id: of the node's present boot.
    """
    section = settings.kubeletplugin
    own = section.deviceplugin
    folder = root / own.folder.lstrip("/")
    serves = is_socket(folder / _HOST) and has_listener(folder / _HOST)
    if not section.serves_device_plugins and not serves:
        return None
    kubelets = root / posixpath.join(section.kubelet_root, "device-plugins").lstrip("/")
    record = BootFile(SystemFiles(), str(root / own.known_file.lstrip("/")), boot_id, Known, logger("doctor"))
    known = record.load() or {}
    return ObservedBridge(
        folder=own.folder,
        serves=serves,
        plugins=tuple(_listening(folder)),
        at_kubelet=tuple(_listening(kubelets)),
        unfit=dict(_unfit(settings, known)),
        empty=tuple(sorted(name for name, one in known.items() if one.endpoint and not one.devices and not one.gone)),
        unregistered=tuple(sorted(set(own.resources) - set(known))),
    )


def _listening(folder: Path) -> Iterator[str]:
    """The names of sockets in a folder on which somebody listens, without the kubelet's."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return
    for name in names:
        if not name.startswith(_HOST) and is_socket(folder / name) and has_listener(folder / name):
            yield name


def _unfit(settings: Settings, known: Known) -> Iterator[tuple[str, UnfitPattern]]:
    for resource, own in settings.kubeletplugin.deviceplugin.resources.items():
        devices = known[resource].devices if resource in known else ()
        ids = [card.device_id for card in card_reports(devices, own.replicas)]
        if own.id_pattern and ids and not any(fits_pattern(each, own) for each in ids):
            yield resource, UnfitPattern(own.id_pattern, len(ids), ids[0])
