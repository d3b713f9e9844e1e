"""Container Device Interface specs as values and as JSON. Pure.

Field names, name syntax and minimum versions follow the specification (SPEC.md of container-device-interface). The
tests check the output against its JSON schema. Only the parts that this project writes are here.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from driver.errors import Fault, InvalidInput
from driver.kube.codec import encode_object
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook

_VENDOR_OR_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class CdiDevice:
    """A device by the name that the kubelet passes to the runtime."""

    name: str
    edits: Edits


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec file: devices of one vendor and class."""

    vendor: str
    device_class: str
    devices: tuple[CdiDevice, ...]
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations, which runtimes ignore."""

    @property
    def kind(self) -> str:
        """``vendor/class``."""
        return f"{self.vendor}/{self.device_class}"

    def id(self, device: CdiDevice) -> str:
        """The qualified name of ``device``, as the kubelet passes it to the runtime."""
        return f"{self.kind}={device.name}"


def minimum_version(spec: Spec) -> str:
    """The oldest version of the specification that has all fields of ``spec``: older runtimes refuse newer versions."""
    if any(device.edits.additional_gids for device in spec.devices):
        return "0.7.0"
    if "." in spec.device_class or spec.annotations:
        return "0.6.0"
    digit_first = any(device.name[:1].isdigit() for device in spec.devices)
    host_path = any(device.edits.device_nodes for device in spec.devices)
    return "0.5.0" if digit_first or host_path else "0.3.0"


def encode(spec: Spec) -> bytes:
    """The spec file's content; equal specs give equal bytes.

    Raises:
        InvalidInput: a runtime would reject the file. The driver's name or a device's name must change.
    """
    if faults := list(_faults(spec)):
        raise InvalidInput(f"CDI spec {spec.kind}", faults)
    document = {
        "cdiVersion": minimum_version(spec),
        "kind": spec.kind,
        **({"annotations": dict(spec.annotations)} if spec.annotations else {}),
        "devices": [{"name": device.name, "containerEdits": _edits(device.edits)} for device in spec.devices],
    }
    return encode_object(document) + b"\n"


def annotation(content: bytes, name: str) -> str:
    """An annotation of a spec file; "" if the file does not have it or is not a spec file."""
    try:
        return str(json.loads(content)["annotations"][name])
    except (LookupError, RecursionError, TypeError, ValueError):
        return ""


def _faults(spec: Spec) -> list[Fault]:
    faults = [
        Fault(
            "kind", f"must start with a letter, end with a letter or digit, and have at least two characters: {part!r}"
        )
        for part in (spec.vendor, spec.device_class)
        if not _VENDOR_OR_CLASS.fullmatch(part)
    ]
    names = [device.name for device in spec.devices]
    faults += [
        Fault(
            f"devices[{index}].name",
            f"must consist of letters, digits and, inside, the characters _ - . and colon: {name!r}",
        )
        for index, name in enumerate(names)
        if not _DEVICE_NAME.fullmatch(name)
    ]
    faults += [
        Fault("devices", f"duplicate name: {name!r}") for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if not names:
        faults.append(Fault("devices", "must have at least one device"))
    return faults


def _edits(edits: Edits) -> dict[str, Any]:
    raw = {
        "env": [f"{name}={value}" for name, value in edits.env],
        "deviceNodes": [_node(node) for node in edits.device_nodes],
        "mounts": [
            {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": list(mount.options)}
            for mount in edits.mounts
        ],
        "hooks": [_hook(hook) for hook in edits.hooks],
        "additionalGids": [gid for gid in edits.additional_gids if gid],
    }
    return {name: value for name, value in raw.items() if value}


def _node(node: DeviceNode) -> dict[str, Any]:
    optional = {"fileMode": node.file_mode, "uid": node.uid, "gid": node.gid}
    return {
        "path": node.path,
        "hostPath": node.host_path,
        "type": node.type,
        "major": node.major,
        "minor": node.minor,
        "permissions": node.permissions,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _hook(hook: Hook) -> dict[str, Any]:
    raw = {
        "hookName": hook.stage,
        "path": hook.path,
        "args": list(hook.args),
        "env": [f"{name}={value}" for name, value in hook.env],
        "timeout": hook.timeout_seconds,
    }
    return {name: value for name, value in raw.items() if value not in (None, [])}
