"""The edits of CDI devices that device plugins name, from the specs on the node, as runtimes would read them.

They are copied into the claim's own spec: a device plugin may remove its specs when it stops, and a container of the
claim could not be restarted then.

Everybody's specs are in the same folders. What is wrong with one that does not name the vendor and the class of a
device keeps nobody from it; one that does is left out if it makes no sense, as runtimes leave it out.
"""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from driver.errors import SENSELESS
from driver.limits import listed
from driver.yaml_values import InvalidDocument, one_line, yaml_texts
from kubeletplugin.hardware.cdifields import read_spec
from kubeletplugin.hardware.deviceplugin.hostfiles import HostNode, HostTree
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.port import HardwareRefusal, Unsupported

FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""Where runtimes look for specs; the last one that has a device counts."""
_MOST_SPECS: Final = 512
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_SAID: Final = 500
"""Characters about specs that cannot be read."""
_ALL_PERMISSIONS: Final = "rwm"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A device of a spec."""

    path: str
    """The spec's file."""
    common: Mapping[str, Any]
    """The edits for all devices of the spec."""
    own: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Devices:
    """What the specs of the node have of some devices, by their full names."""

    wanted: Collection[str]
    entries: dict[str, _Entry] = field(default_factory=dict)
    twice: dict[str, list[str]] = field(default_factory=dict)
    """Devices that several specs of one folder have, which makes them nobody's, with the specs."""
    left_out: list[str] = field(default_factory=list)
    """Why specs were left out."""

    def read_specs(self, files: HostTree) -> None:
        """Read all specs. Raises OSError."""
        for folder in FOLDERS:
            here: dict[str, list[_Entry]] = {}
            for path in _paths(folder, files):
                for name, entry in self._entries(path, files):
                    here.setdefault(name, []).append(entry)
            for name, entries in here.items():
                self.entries[name] = entries[0]
                if len(entries) > 1:
                    self.twice[name] = [entry.path for entry in entries]

    def _entries(self, path: str, files: HostTree) -> Iterator[tuple[str, _Entry]]:
        try:
            spec = _spec(files.read(path, _MOST_BYTES), {name.partition("=")[0] for name in self.wanted})
        except OSError as error:
            self.left_out.append(f"{path}: {error.strerror or error}")
        except (ValueError, InvalidDocument) as error:
            self.left_out.append(f"{path}: {error}")
        except yaml.YAMLError as error:
            self.left_out.append(f"{path}: is not YAML: {one_line(error)}")
        except SENSELESS as error:
            self.left_out.append(f"{path}: cannot be decoded: {error!r}")
        else:
            if spec is None:
                return
            for device in spec["devices"]:
                if (name := f"{spec['kind']}={device['name']}") in self.wanted:
                    yield name, _Entry(path, spec["containerEdits"], device["containerEdits"])


def edits_of(names: Iterable[str], resource: str, files: HostTree) -> tuple[Edits, ...]:
    """The edits of CDI devices by their full names, such as ``amd.com/gpu=0``, in the order in which they apply.

    What a spec has for all its devices comes once, and so does a device that is named twice.

    Raises:
        HardwareRefusal: no spec has a device, two specs have it, or the specs cannot be read.
        Unsupported: a device has edits that cannot be copied.
    """
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        return ()
    devices = _Devices(frozenset(wanted))
    try:
        devices.read_specs(files)
    except OSError as error:
        raise HardwareRefusal(f"CDI specs of the node cannot be read: {error}; correct that on the node") from error
    if faults := [*_faults(wanted, devices)]:
        raise HardwareRefusal(f"device plugin of {resource}: {'; '.join(faults)}")
    given: set[str] = set()
    edits: list[Edits] = []
    for name in wanted:
        entry, who = devices.entries[name], f"device plugin of {resource}: CDI device {name}"
        if entry.path not in given:
            edits.append(_edits(entry.common, files, who))
        edits.append(_edits(entry.own, files, who))
        given.add(entry.path)
    return tuple(edits)


def _faults(wanted: Iterable[str], devices: _Devices) -> Iterator[str]:
    for name, paths in devices.twice.items():
        yield f"answers {name}, which {' and '.join(paths)} have: runtimes take it from none; remove all but one"
    if missing := [name for name in wanted if name not in devices.entries]:
        unread = f"; these cannot be read: {listed(devices.left_out, _MOST_SAID)}" if devices.left_out else ""
        yield (
            f"answers {', '.join(missing)}, which no CDI spec in {' or '.join(FOLDERS)} has; mount one of these "
            f"folders of the host in its pod, at the path to which it writes its specs{unread}"
        )


def _paths(folder: str, files: HostTree) -> Iterator[str]:
    names = [name for name in files.names(folder) if name.endswith((".json", ".yaml"))]
    yield from (posixpath.join(folder, name) for name in names[:_MOST_SPECS])


def _spec(content: bytes, kinds: Collection[str]) -> Mapping[str, Any] | None:
    """A spec; None if it is that of another vendor, or none.

    Raises:
        ValueError, InvalidDocument, yaml.YAMLError: it may be of one of the kinds, and runtimes leave it out.
    """
    # A slash may be written in several ways. Most files are those of others, which need not be read as YAML at all.
    if not any(all(part.encode() in content for part in kind.split("/")) for kind in kinds):
        return None
    value = yaml_texts(content.decode())  # JSON is YAML
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        return None
    spec, faults = read_spec(value)
    if faults:
        raise ValueError(listed([str(fault) for fault in faults], _MOST_SAID))
    return spec


def _edits(raw: Mapping[str, Any], files: HostTree, who: str) -> Edits:
    present = ["intelRdt"] if raw["intelRdt"] is not None else []
    if present := [*present, *(["netDevices"] if raw["netDevices"] else [])]:
        raise Unsupported(f"{who}: has {', '.join(present)}, which a claim cannot give to containers")
    return Edits(
        env=tuple(_variable(text) for text in raw["env"]),
        device_nodes=tuple(_node(node, files, who) for node in raw["deviceNodes"]),
        mounts=tuple(
            Mount(mount["hostPath"], mount["containerPath"], mount["options"], mount["type"]) for mount in raw["mounts"]
        ),
        hooks=tuple(
            Hook(
                hook["path"],
                hook["args"],
                tuple(_variable(text) for text in hook["env"]),
                hook["hookName"],
                hook["timeout"],
            )
            for hook in raw["hooks"]
        ),
        additional_gids=raw["additionalGids"],
    )


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _node(raw: Mapping[str, Any], files: HostTree, who: str) -> DeviceNode:
    """A device node as it is where type and number are given, else as the host has it."""
    host_path = raw["hostPath"] or raw["path"]
    type_, major, minor = raw["type"], raw["major"], raw["minor"]
    if not type_ or (not major and type_ != "p"):
        found = _looked_up(host_path, files, who)
        if type_ not in ("", found.type):
            raise HardwareRefusal(f"{who}: {host_path} is of the type {found.type}, not {type_}; correct its spec")
        type_ = found.type
        if not major and type_ != "p":
            major, minor = found.major, found.minor
    return DeviceNode(
        raw["path"],
        host_path,
        major,
        minor,
        permissions=raw["permissions"] or _ALL_PERMISSIONS,
        type=type_,
        file_mode=raw["fileMode"],
        uid=raw["uid"],
        gid=raw["gid"],
    )


def _looked_up(path: str, files: HostTree, who: str) -> HostNode:
    try:
        found = files.node(path)
    except OSError as error:
        raise HardwareRefusal(f"{who}: {path} cannot be looked at: {error}; correct that on the node") from error
    if found is None:
        raise HardwareRefusal(f"{who}: {path} is no device node of this node; see its device plugin")
    return found
