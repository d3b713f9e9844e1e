"""Applies CDI ids to a container as a container runtime does: devices, environment and mounts."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from driver.errors import LodeError
from driver.files import Files


class UnresolvableDevice(LodeError):
    """No CDI spec defines the device; a real runtime would refuse to create the container."""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """Devices, environment and mounts that a process in the container sees."""

    devices: Mapping[str, str]
    """Path in the container to path on the host."""
    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    """Path in the container to path on the host."""


def container_view(files: Files, cdi_root: str, ids: Iterable[str]) -> ContainerView:
    """Apply the edits of CDI devices, as the CDI specification 1.1 defines it.

    The edits of a spec are applied once, before those of its devices.

    Raises:
        UnresolvableDevice: names the devices that no spec defines.
    """
    specs = [json.loads(files.read(f"{cdi_root}/{name}") or b"{}") for name in files.names(cdi_root)]
    known = {f"{spec['kind']}={device['name']}": (spec, device) for spec in specs for device in spec["devices"]}
    wanted = list(dict.fromkeys(ids))
    if missing := [name for name in wanted if name not in known]:
        raise UnresolvableDevice(f"unresolvable CDI devices {', '.join(missing)}")
    edits: list[Mapping[str, Any]] = []
    for spec, device in (known[name] for name in wanted):
        for edit in (spec.get("containerEdits") or {}, device.get("containerEdits") or {}):
            if edit not in edits:
                edits.append(edit)
    nodes = [node for edit in edits for node in edit.get("deviceNodes") or []]
    mounts = [mount for edit in edits for mount in edit.get("mounts") or []]
    return ContainerView(
        {node["path"]: node.get("hostPath") or node["path"] for node in nodes},
        dict(line.split("=", 1) for edit in edits for line in edit.get("env") or []),
        {mount["containerPath"]: mount["hostPath"] for mount in mounts},
    )
