"""Reads the settings of the node's container runtime, wherever distributions keep them."""

import posixpath
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from cli.doctor.runtime_checks import CRI, CRI_RUNTIME, CRIO, CdiSettings, ContainerRuntime, RuntimeFile
from kubeletplugin.sockets import channel_to

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
