"""Answers of device plugins to ``Allocate`` as edits of containers.

The kubelet passes devices, mounts and variables to the runtime, and annotations too. A claim passes CDI edits, which
differ: a device has to be a device node, and annotations do not exist. Where both the answer and a CDI device that it
names have something, the CDI device's counts, as at a runtime, which gives it to the container last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from driver.deviceplugins import ResourceSettings
from driver.kube.codec import converter, decode_object, encode_object
from kubeletplugin.hardware.deviceplugin.cdispecs import edits_of
from kubeletplugin.hardware.deviceplugin.hostfiles import HostTree
from kubeletplugin.hardware.edits import DeviceNode, Edits, Mount
from kubeletplugin.hardware.port import HardwareRefusal, Unsupported

MOST_BYTES: Final = 256 * 1024
"""Bytes of the edits of one answer as JSON; the checkpoint keeps them."""
MOST_PATH: Final = 4095
"""Characters of a path (Linux, ``PATH_MAX``)."""

_edits_from: Final = converter(Edits)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AnsweredMount:
    """A mount of an answer."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class AnsweredDevice:
    """A device of an answer, which may be a link or a folder."""

    container_path: str
    host_path: str
    permissions: str = ""


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """What a device plugin wants for one container (``ContainerAllocateResponse``)."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[AnsweredMount, ...] = ()
    devices: tuple[AnsweredDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def edits_from(answer: PluginAnswer, resource: str, settings: ResourceSettings, files: HostTree) -> Edits:
    """The edits that give a container what the device plugin wants.

    Raises:
        Unsupported: the answer has something that a claim cannot give to containers.
        HardwareRefusal: a device, a folder or a CDI device of the answer is not on this node.
    """
    cdi = [*answer.cdi_devices, *_cdi_annotations(answer, resource, settings)]
    if faults := [*_env_faults(answer), *_path_faults(answer)]:
        raise Unsupported(f"device plugin of {resource}: its answer cannot be used: {'; '.join(faults)}; correct it")
    try:
        devices = [node for device in answer.devices for node in _nodes(device, resource, files)]
        mounts = [_mount(mount, resource, files) for mount in answer.mounts]
    except OSError as error:
        raise HardwareRefusal(
            f"device plugin of {resource}: what it answers cannot be looked at: {error}; see kubeletplugin.deviceplugin"
            ".hostRoot"
        ) from error
    answered = Edits(
        env=tuple(sorted(answer.env.items())),
        device_nodes=_first(devices, lambda node: node.path),
        mounts=_first(mounts, lambda mount: mount.container_path),
    )
    edits = [answered, *edits_of(cdi, resource, files)]
    env = {name: value for each in edits for name, value in each.env if not _is_any(name, settings.omit_env)}
    found = Edits(
        env=tuple(env.items()),
        device_nodes=_last((node for each in edits for node in each.device_nodes), lambda node: node.path),
        mounts=_last((mount for each in edits for mount in each.mounts), lambda mount: mount.container_path),
        hooks=tuple(hook for each in edits for hook in each.hooks),
        additional_gids=_first((gid for each in edits for gid in each.additional_gids), lambda gid: gid),
    )
    if len(to_text(found)) > MOST_BYTES:
        raise Unsupported(f"device plugin of {resource}: its answer has more than {MOST_BYTES} bytes; ask for fewer")
    return found


def to_text(edits: Edits) -> str:
    """The edits as a text for the checkpoint."""
    return encode_object(edits).decode()


def from_text(text: str) -> Edits:
    """The edits that ``to_text`` wrote.

    Raises:
        ValueError: ``to_text`` did not write this.
    """
    return _edits_from(decode_object(text.encode()))


def _first(items: Iterable[T], key: Callable[[T], object]) -> tuple[T, ...]:
    """The items without those whose key an earlier one has, as the kubelet leaves them out."""
    found: dict[object, T] = {}
    for item in items:
        found.setdefault(key(item), item)
    return tuple(found.values())


def _last(items: Iterable[T], key: Callable[[T], object]) -> tuple[T, ...]:
    """The items without those whose key a later one has, as runtimes leave them out."""
    found: dict[object, T] = {}
    for item in items:
        found.pop(key(item), None)
        found[key(item)] = item
    return tuple(found.values())


def _is_any(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _cdi_annotations(answer: PluginAnswer, resource: str, settings: ResourceSettings) -> Iterator[str]:
    refused: list[str] = []
    for key, value in sorted(answer.annotations.items()):
        if key.startswith(settings.cdi_annotations):
            yield from (name.strip() for name in value.split(",") if name.strip())
        elif not _is_any(key, settings.harmless_annotations):
            refused.append(key)
    if refused:
        raise Unsupported(
            f"device plugin of {resource}: wants the annotation {', '.join(refused)} for containers, which a claim "
            "cannot give them; run it in a mode without it, or list the annotation in kubeletplugin.deviceplugin"
            f".resources[{resource}].harmlessAnnotations if containers do not need it"
        )


def _env_faults(answer: PluginAnswer) -> Iterator[str]:
    for name, value in sorted(answer.env.items()):
        if not name or "=" in name or "\0" in name + value:
            yield f"variable {name!r} is none"


def _path_faults(answer: PluginAnswer) -> Iterator[str]:
    paths = [path for mount in answer.mounts for path in (mount.container_path, mount.host_path)]
    paths += [path for device in answer.devices for path in (device.container_path, device.host_path)]
    for path in paths:
        if not path.startswith("/") or "\0" in path or len(path) > MOST_PATH:
            yield f"path {path[:MOST_PATH]!r} is not absolute"
    for device in answer.devices:
        if not device.permissions or set(device.permissions) - set("rwm"):
            yield f"device {device.host_path} has permissions with which no container starts: {device.permissions!r}"


def _nodes(device: AnsweredDevice, resource: str, files: HostTree) -> Iterator[DeviceNode]:
    found = files.nodes(device.host_path)
    if not found:
        raise HardwareRefusal(
            f"device plugin of {resource}: answers the device {device.host_path}, which is no device node of this node "
            "and no folder with any; see its log"
        )
    for node in found:
        path = f"{device.container_path.rstrip('/')}/{node.path}" if node.path else device.container_path
        permissions = "".join(sorted(set(device.permissions), key="rwm".index))
        made = DeviceNode(path, node.host_path, node.major, node.minor, permissions=permissions, type=node.type)
        yield made.owned_as(node.mode, node.uid, node.gid)


def _mount(mount: AnsweredMount, resource: str, files: HostTree) -> Mount:
    if not files.exists(mount.host_path):
        raise HardwareRefusal(
            f"device plugin of {resource}: answers the mount {mount.host_path}, which is not on this node; see its log"
        )
    options = ("rbind", "rprivate", "ro" if mount.read_only else "rw")
    return Mount(mount.host_path, mount.container_path, options)
