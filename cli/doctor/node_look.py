"""Looks at the node that this runs on, its device plugins, and the settings of its container runtime."""

import os
import posixpath
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from cli.doctor.node_checks import (
    CRI,
    CRI_RUNTIME,
    CRIO,
    CdiSettings,
    ContainerRuntime,
    FolderState,
    ObservedBridge,
    ObservedNode,
    PluginSocket,
    RuntimeFile,
    UnfitPattern,
)
from driver.errors import TransientFault
from driver.files import SystemFiles
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.mapping import fits_pattern
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.deviceplugin.reported import card_reports
from kubeletplugin.hardware.nvidia.driverfiles import missing_for_hook
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.pci import cards_on_bus
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, facts_of
from kubeletplugin.prepare.storage import plugin_directory
from kubeletplugin.proto import pluginregistration_v1_pb2, pluginregistration_v1_pb2_grpc
from kubeletplugin.sockets import channel_to, has_listener, is_socket

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


ANSWER_SECONDS = 2.0
_DISABLED: Final = "disabled_plugins"
_WITHOUT_CRI: Final = ("cri", CRI, CRI_RUNTIME)
_MOST_FILES: Final = 100
"""More are not read: no distribution has so many."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a distribution has the files of its container runtime.

    Attributes:
        main: its file, which names others to be read.
        parts: patterns of further files that it is made of, or that its programs read by themselves.
        sockets: where it listens.
        change: where an operator changes the settings.
    """

    name: str
    main: str
    parts: tuple[str, ...]
    sockets: tuple[str, ...]
    change: str


_CONTAINERD = "/run/containerd/containerd.sock"
_K3S = "/run/k3s/containerd/containerd.sock"
_RANCHER = "/var/lib/rancher"
_PLACES: Final = (
    _Place(
        "containerd",
        "/etc/containerd/config.toml",
        (),
        (_CONTAINERD,),
        "/etc/containerd/config.toml, or in a file that it imports",
    ),
    _Place(
        "Talos",
        "/etc/cri/containerd.toml",
        ("/etc/cri/conf.d/*.part", "/etc/cri/conf.d/*.toml"),
        (_CONTAINERD,),
        "/etc/cri/conf.d/20-customization.part (machine.files of the machine's configuration)",
    ),
    _Place(
        "k3s",
        f"{_RANCHER}/k3s/agent/etc/containerd/config.toml",
        (),
        (_K3S,),
        f"a template in {_RANCHER}/k3s/agent/etc/containerd (config-v3.toml.tmpl for containerd 2)",
    ),
    _Place(
        "RKE2",
        f"{_RANCHER}/rke2/agent/etc/containerd/config.toml",
        (),
        (_K3S,),
        f"a template in {_RANCHER}/rke2/agent/etc/containerd (config-v3.toml.tmpl for containerd 2)",
    ),
    _Place("k0s", "/etc/k0s/containerd.toml", (), ("/run/k0s/containerd.sock",), "a file in /etc/k0s/containerd.d"),
    _Place(
        "MicroK8s",
        "/var/snap/microk8s/current/args/containerd.toml",
        (),
        ("/var/snap/microk8s/common/run/containerd.sock",),
        "/var/snap/microk8s/current/args/containerd-template.toml",
    ),
    _Place(
        "CRI-O",
        "/etc/crio/crio.conf",
        ("/etc/crio/crio.conf.d/*",),
        ("/run/crio/crio.sock", "/var/run/crio/crio.sock"),
        "a file in /etc/crio/crio.conf.d",
    ),
)


def look_at_runtimes(root: Path) -> tuple[ContainerRuntime, ...]:
    """The container runtimes of the node: those that listen, else all that have files.

    Args:
        root: where the node's file system is mounted.
    """
    read = {place: tuple(_files(root, place)) for place in _PLACES}
    read = {place: files for place, files in read.items() if not any(file.is_without_cri for file in files)}
    listening = {place: socket for place in read if (socket := _socket(root, place))}
    # Several distributions have the same socket; the one that listens there has files, unless none has.
    with_files = [place for place in read if read[place] and (place in listening or not listening)]
    served = {listening.get(place) for place in with_files}
    bare = [place for place, socket in listening.items() if socket not in served]
    bare = [place for place in bare if place.name in ("containerd", "CRI-O")]
    return tuple(
        ContainerRuntime(
            place.name,
            read[place],
            "" if place not in listening or place.name == "CRI-O" else _version(listening[place]),
            place.change,
            place.name == "CRI-O",
        )
        for place in (*with_files, *bare)
    )


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _socket(root: Path, place: _Place) -> Path | None:
    try:
        return next((path for path in (_below(root, each) for each in place.sockets) if path.is_socket()), None)
    except OSError:
        return None


def _version(socket: Path) -> str:
    """The version that containerd says; "" if it does not answer."""
    with channel_to(socket) as channel:
        ask: grpc.UnaryUnaryMultiCallable[None, StringValue] = channel.unary_unary(
            "/containerd.services.version.v1.Version/Version",
            request_serializer=lambda _: b"",
            response_deserializer=StringValue.FromString,  # the version is the first field of the answer
        )
        try:
            return str(ask(None, timeout=ANSWER_SECONDS).value)
        except grpc.RpcError:
            return ""


def _files(root: Path, place: _Place) -> Iterator[RuntimeFile]:
    """The files that the runtime reads, in its order: each before those that it imports."""
    pending = [place.main] if _below(root, place.main).exists() else []
    pending += [path for pattern in place.parts for path in _matching(root, pattern) if path != place.main]
    known = set[str]()
    while pending and len(known) < _MOST_FILES:
        path = pending.pop(0)
        if path not in known:
            known.add(path)
            file, imports = _read(root, path)
            yield file
            pending += imports


def _matching(root: Path, pattern: str) -> list[str]:
    folder, name = posixpath.split(pattern)
    try:
        return sorted(f"{folder}/{path.name}" for path in _below(root, folder).glob(name))
    except OSError:
        return []


def _read(root: Path, path: str) -> tuple[RuntimeFile, list[str]]:
    """The file, and the paths of those that it imports."""
    try:
        raw = tomllib.loads(_below(root, path).read_text())
        sections = {name: _settings(table) for name, table in _tables(raw)}
        file = RuntimeFile(path, _format(raw), sections, any(name in _WITHOUT_CRI for name in _texts(raw, _DISABLED)))
        return file, list(_imports(root, path, raw))
    except (OSError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return RuntimeFile(path, fault=f"cannot be read: {error}"), []


def _format(raw: Mapping[str, Any]) -> int:
    version = raw.get("version", 0)
    if not isinstance(version, int):
        raise ValueError(f"version: {version!r} is not a number")
    return version


def _imports(root: Path, path: str, raw: Mapping[str, Any]) -> Iterator[str]:
    for each in _texts(raw, "imports"):
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), each))
        yield from _matching(root, found) if "*" in found else [found]


def _texts(raw: Mapping[str, Any], name: str) -> list[str]:
    found = raw.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{name}: is not a list of texts")
    return found


def _tables(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections that have settings of CDI, by their names in the newest format that has them."""
    plugins = _table(raw, "plugins")
    for name, shown in (("cri", CRI), (CRI, CRI), (CRI_RUNTIME, CRI_RUNTIME)):
        if name in plugins:
            yield shown, _table(plugins, name)
    if "crio" in raw:
        yield CRIO, _table(_table(raw, "crio"), "runtime")


def _table(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"{name}: is not a table")
    return found


def _settings(table: Mapping[str, Any]) -> CdiSettings:
    enabled = table.get("enable_cdi")
    if not isinstance(enabled, bool | None):
        raise ValueError(f"enable_cdi: {enabled!r} is not true or false")
    return CdiSettings(enabled, tuple(_texts(table, "cdi_spec_dirs")) if "cdi_spec_dirs" in table else None)


_ASCEND = ("/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64/driver", "/usr/local/dcmi")


def observe_node(settings: Settings, root: str = "/", driver_root: str = "") -> ObservedNode:
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
    bus = cards_on_bus(Sysfs(str(node / "sys")))
    unseen = list(bus.unread)
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
        cards=bus.counts,
        device_folders=tuple(device_folders),
        device_files=frozenset(name for folder in device_folders for name in _names(_below(node, folder))),
        libraries=frozenset(name for folder in driver_roots for name in _libraries(settings, node, folder, unseen)),
        hook_lacks=tuple(_hook_lacks(settings, node, unseen)),
        bridge=look_at_bridge(settings, node, boot_id),
        unseen=tuple(dict.fromkeys(unseen)),
    )


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


def _libraries(settings: Settings, node: Path, folder: str, unseen: list[str]) -> Iterator[str]:
    folders = (*settings.kubeletplugin.nvidia.library_folders, *_ASCEND)
    root = DriverRoot(folder, str(_below(node, folder)), folders=folders)
    for vendor in EVERY_VENDOR:
        with _noting(unseen):
            if root.library(library := facts_of(vendor).library):
                yield library


def _hook_lacks(settings: Settings, node: Path, unseen: list[str]) -> Iterator[str]:
    section = settings.kubeletplugin.nvidia
    if section.linker != "environment" and not section.nvidia_ctk:
        with _noting(unseen):
            yield from missing_for_hook(DriverRoot("/", str(node)))


@contextmanager
def _noting(unseen: list[str]) -> Iterator[None]:
    """Ends the block at a file that cannot be looked at, and notes why."""
    try:
        yield
    except TransientFault as fault:
        unseen.append(str(fault))
