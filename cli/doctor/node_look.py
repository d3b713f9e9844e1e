"""Looks at the node that this runs on."""

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from cli.doctor.bridge_look import look_at_bridge
from cli.doctor.node_checks import FolderState, ObservedNode, PluginSocket
from cli.doctor.runtime_look import look_at_runtimes
from driver.settings import Settings
from kubeletplugin.hardware.nvidia.driverfiles import missing_for_hook
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.pci import cards_on_bus
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, facts_of
from kubeletplugin.prepare.storage import plugin_directory
from kubeletplugin.proto import pluginregistration_v1_pb2, pluginregistration_v1_pb2_grpc
from kubeletplugin.sockets import channel_to

ANSWER_SECONDS = 2.0
_ASCEND = ("/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64/driver", "/usr/local/dcmi")


def look(settings: Settings, root: str = "/", driver_root: str = "") -> ObservedNode:
    """Read the facts of the node.

    Args:
        root: where the node's file system is mounted.
        driver_root: where the vendor's driver is installed, below ``root``; "" for ``root`` itself and what the
            settings say.
    """
    section = settings.kubeletplugin
    node = Path(root)
    driver_roots = {driver_root} if driver_root else {"/", section.nvidia.driver_root}
    # A driver container has its device nodes below its own root, and maybe nowhere else.
    device_folders = dict.fromkeys(["/dev", *(posixpath.join(folder, "dev") for folder in sorted(driver_roots))])
    folders = (
        section.cdi_root,
        posixpath.join(section.kubelet_root, "plugins_registry"),
        plugin_directory(settings),
    )
    boot_id = _text(_below(node, section.boot_id_file)).strip()
    return ObservedNode(
        driver=settings.driver_name,
        hardware=section.hardware,
        cdi_root=section.cdi_root,
        folders={folder: _folder(_below(node, folder)) for folder in folders},
        boot_id=bool(boot_id),
        registrations=tuple(_registrations(node, _below(node, folders[1]))),
        device_plugins=_names(_below(node, posixpath.join(section.kubelet_root, "device-plugins")), ".sock"),
        runtimes=look_at_runtimes(node),
        cards=cards_on_bus(Sysfs(str(node / "sys"))),
        device_folders=tuple(device_folders),
        device_files=frozenset(name for folder in device_folders for name in _names(_below(node, folder))),
        libraries=frozenset(name for folder in driver_roots for name in _libraries(settings, node, folder)),
        hook_lacks=_hook_lacks(settings, node),
        bridge=look_at_bridge(settings, node, boot_id),
    )


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _names(folder: Path, suffix: str = "") -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(suffix)))
    except OSError:
        return ()


def _folder(path: Path) -> FolderState:
    if not path.exists():
        return "missing"
    if not path.is_dir():
        return "no folder"
    return "present" if os.access(path, os.W_OK | os.X_OK) else "not writable"


def _registrations(root: Path, folder: Path) -> Iterator[PluginSocket]:
    for name in _names(folder, ".sock"):
        if not (folder / name).is_socket():
            continue
        path = "/" + str((folder / name).relative_to(root))
        with channel_to(folder / name) as channel:
            registrar: Any = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            try:
                info = registrar.GetInfo(pluginregistration_v1_pb2.InfoRequest(), timeout=ANSWER_SECONDS)
            except grpc.RpcError:
                yield PluginSocket(path, "")
                continue
        yield PluginSocket(path, info.name, info.endpoint, _below(root, info.endpoint).is_socket())


def _libraries(settings: Settings, node: Path, folder: str) -> Iterator[str]:
    folders = (*settings.kubeletplugin.nvidia.library_folders, *_ASCEND)
    root = DriverRoot(folder, str(_below(node, folder)), folders=folders)
    for vendor in EVERY_VENDOR:
        if root.library(library := facts_of(vendor).library):
            yield library


def _hook_lacks(settings: Settings, node: Path) -> tuple[str, ...]:
    section = settings.kubeletplugin.nvidia
    if section.linker == "environment" or section.nvidia_ctk:
        return ()
    return missing_for_hook(DriverRoot("/", str(node)))
