"""Container Device Interface specs as values and as JSON. Pure.

Field names and minimum versions follow the specification (SPEC.md of container-device-interface). The tests check the
output against its JSON schema. Only the parts that this project writes are here.

Runtimes read the JSON as YAML, which differs in characters: control characters have to be escaped, and characters
beyond U+FFFF must not be.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from driver.bare import Bare
from driver.errors import Fault, InvalidInput
from driver.kube.codec import encode_object
from kubeletplugin.hardware.cdifields import read_spec
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount

_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters of JSON that are no text in YAML, or end a line there."""
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
"""What no file of this format and no variable or path can have."""


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
    if digit_first or host_path:
        return "0.5.0"
    return "0.4.0" if any(mount.type for device in spec.devices for mount in device.edits.mounts) else "0.3.0"


def encode(spec: Spec) -> bytes:
    """The spec file's content; equal specs give equal bytes.

    Raises:
        InvalidInput: a runtime would reject the file: a name must change, or what a backend has said of a device.
    """
    document = {
        "cdiVersion": minimum_version(spec),
        "kind": spec.kind,
        **({"annotations": dict(spec.annotations)} if spec.annotations else {}),
        "devices": [{"name": device.name, "containerEdits": _edits(device.edits)} for device in spec.devices],
    }
    if faults := [*read_spec(_as_read(document))[1], *_odd_texts(document, "")]:
        raise InvalidInput(f"CDI spec {spec.kind}", faults)
    text = encode_object(document).decode()
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"


def annotation(content: bytes, name: str) -> str:
    """An annotation of a spec file; "" if the file does not have it or is not a spec file."""
    try:
        return str(json.loads(content)["annotations"][name])
    except (LookupError, RecursionError, TypeError, ValueError):
        return ""


def _as_read(value: Any) -> Any:
    """What a runtime reads of a value that is written."""
    if isinstance(value, Mapping):
        return {key: _as_read(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_read(each) for each in value]
    return value if isinstance(value, str) else Bare(encode_object(value).decode())


def _odd_texts(value: Any, at: str) -> Iterator[Fault]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _odd_texts(each, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _odd_texts(each, f"{at}[{index}]")
    elif isinstance(value, str) and _NOT_TEXT.search(value):
        yield Fault(at, f"must be a text without NUL: {value!r}")


def _edits(edits: Edits) -> dict[str, Any]:
    raw = {
        "env": [f"{name}={value}" for name, value in edits.env],
        "deviceNodes": [_node(node) for node in edits.device_nodes],
        "mounts": [_mount(mount) for mount in edits.mounts],
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


def _mount(mount: Mount) -> dict[str, Any]:
    raw = {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": list(mount.options)}
    return {**raw, **({"type": mount.type} if mount.type else {})}


def _hook(hook: Hook) -> dict[str, Any]:
    raw = {
        "hookName": hook.stage,
        "path": hook.path,
        "args": list(hook.args),
        "env": [f"{name}={value}" for name, value in hook.env],
        "timeout": hook.timeout_seconds,
    }
    return {name: value for name, value in raw.items() if value not in (None, [])}
