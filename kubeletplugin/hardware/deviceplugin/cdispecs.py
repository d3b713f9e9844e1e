"""The edits of CDI devices that device plugins name, from the specs on the node.

They are copied into the claim's own spec: a device plugin may remove its specs when it stops, and a container of the
claim could not be restarted then.

Everybody's specs are in the same folders. What is wrong with one that does not name the vendor and the class of a
device keeps nobody from it; one that does is left out if it makes no sense, as runtimes leave it out.
"""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from driver.errors import SENSELESS
from driver.limits import listed
from driver.yaml_values import InvalidDocument, one_line, yaml_values
from kubeletplugin.hardware.deviceplugin.hostfiles import HostTree
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.port import HardwareRefusal, Unsupported

FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""Where runtimes look for specs; the last one that has a device counts."""
_MOST_SPECS: Final = 512
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_SAID: Final = 500
"""Characters about specs that cannot be read."""
_NOT_COPIED: Final = ("intelRdt", "netDevices")


def edits_of(names: Iterable[str], resource: str, files: HostTree) -> tuple[Edits, ...]:
    """The edits of CDI devices by their full names, such as ``amd.com/gpu=0``.

    Raises:
        HardwareRefusal: no spec has a device, or the specs cannot be read.
        Unsupported: a device has edits that cannot be copied.
    """
    wanted = tuple(names)
    if not wanted:
        return ()
    found: dict[str, tuple[Edits, ...]] = {}
    left_out: list[str] = []
    kinds = {name.partition("=")[0] for name in wanted}
    try:
        for path in _paths(files):
            try:
                spec = _spec(files.read(path, _MOST_BYTES), kinds)
                if spec.get("kind") in kinds:
                    found |= _devices(spec, frozenset(wanted), files)
            except OSError as error:
                left_out.append(f"{path}: {error.strerror or error}")
            except ValueError as error:
                left_out.append(f"{path}: {error}")
            except SENSELESS as error:
                left_out.append(f"{path}: cannot be decoded: {error!r}")
    except OSError as error:
        raise HardwareRefusal(f"CDI specs of the node cannot be read: {error}; correct that on the node") from error
    if missing := [name for name in wanted if name not in found]:
        unread = f"; these cannot be read: {listed(left_out, _MOST_SAID)}" if left_out else ""
        raise HardwareRefusal(
            f"device plugin of {resource}: answers {', '.join(missing)}, which no CDI spec in {' or '.join(FOLDERS)} "
            f"has; mount one of these folders of the host in its pod, at the path to which it writes its specs{unread}"
        )
    return tuple(edits for name in wanted for edits in found[name])


def _paths(files: HostTree) -> Iterator[str]:
    for folder in FOLDERS:
        names = [name for name in files.names(folder) if name.endswith((".json", ".yaml"))]
        yield from (posixpath.join(folder, name) for name in names[:_MOST_SPECS])


def _spec(content: bytes, kinds: Collection[str]) -> Mapping[str, Any]:
    """A spec; {} if it is that of another vendor, or none, which runtimes leave out, too.

    Raises:
        ValueError: it names one of the kinds, and cannot be read; the message says why.
    """
    # A slash may be written in several ways. Most files are those of others, which need not be read as YAML at all.
    if not any(all(part.encode() in content for part in kind.split("/")) for kind in kinds):
        return {}
    try:
        raw, *more = yaml_values(content.decode())  # JSON is YAML
    except InvalidDocument as error:
        raise ValueError(str(error)) from error
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {one_line(error)}") from error
    if more:
        raise ValueError("has several documents")
    return raw if isinstance(raw, dict) and isinstance(raw.get("kind"), str) else {}


def _devices(spec: Mapping[str, Any], wanted: frozenset[str], files: HostTree) -> dict[str, tuple[Edits, ...]]:
    """Those of the wanted devices that a spec has. Raises one of SENSELESS if it makes no sense."""
    devices = {f"{spec['kind']}={device['name']}": device for device in spec.get("devices") or ()}
    common = spec.get("containerEdits") or {}
    return {
        name: tuple(_edits(raw, files, name) for raw in (common, devices[name].get("containerEdits") or {}) if raw)
        for name in sorted(wanted & devices.keys())
    }


def _edits(raw: Mapping[str, Any], files: HostTree, name: str) -> Edits:
    if present := [field for field in _NOT_COPIED if raw.get(field)]:
        raise Unsupported(f"CDI device {name}: has {', '.join(present)}, which a claim cannot give to containers")
    mounts = tuple(
        Mount(mount["hostPath"], mount["containerPath"], tuple(mount.get("options") or ()))
        for mount in raw.get("mounts") or ()
        if _is_bind(mount, name)
    )
    hooks = tuple(
        Hook(
            hook["path"],
            tuple(hook.get("args") or ()),
            tuple(_variable(text) for text in hook.get("env") or ()),
            hook["hookName"],
            hook.get("timeout"),
        )
        for hook in raw.get("hooks") or ()
    )
    return Edits(
        env=tuple(_variable(text) for text in raw.get("env") or ()),
        device_nodes=tuple(node for each in raw.get("deviceNodes") or () for node in _nodes(each, files, name)),
        mounts=mounts,
        hooks=hooks,
        additional_gids=tuple(int(gid) for gid in raw.get("additionalGids") or ()),
    )


def _is_bind(mount: Mapping[str, Any], name: str) -> bool:
    if mount.get("type", "bind") not in ("", "bind", "none"):
        raise Unsupported(f"CDI device {name}: has a mount of type {mount['type']}, which a claim cannot give")
    return True


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _nodes(raw: Mapping[str, Any], files: HostTree, name: str) -> Iterator[DeviceNode]:
    path, host_path = str(raw["path"]), str(raw.get("hostPath") or raw["path"])
    found = [node for node in files.nodes(host_path) if not node.path]
    if not found:
        raise HardwareRefusal(f"CDI device {name}: {host_path} is no device node of this node; see its device plugin")
    yield DeviceNode(
        path,
        found[0].host_path,
        found[0].major,
        found[0].minor,
        permissions=str(raw.get("permissions") or "rwm"),
        type=found[0].type,
        file_mode=raw.get("fileMode"),
        uid=raw.get("uid"),
        gid=raw.get("gid"),
    )
