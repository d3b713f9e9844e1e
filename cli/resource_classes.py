"""The device class that stands for a resource of a vendor's device plugin. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from driver.errors import SENSELESS
from driver.kube.api import Object
from driver.names import Names

BRIDGED_KINDS: Final = ("device", "device-share")
"""The kinds of devices of device plugins."""
_WORD: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"(?P<domain>{_WORD}(?:\.{_WORD})*)/(?P<name>[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)")
_LONGEST: Final = 63
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")
_EMPTY_ENDS: Final = re.compile(r"-*\.[.-]*")


@dataclass(frozen=True, slots=True)
class PublishedResource:
    """A resource, and how much of it the nodes of a cluster publish; 0 if that was not asked."""

    name: str
    devices: int = 0
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """A device class for one resource.

    Attributes:
        by_scheduler: whether kube-scheduler makes claims for pods that ask for the resource.
        comment: says what it stands for.
    """

    name: str
    resource: str
    driver: str
    by_scheduler: bool
    comment: str

    def manifest(self) -> str:
        """The API object in YAML. Names of drivers and resources need no quotes."""
        kinds = ", ".join(f'"{kind}"' for kind in BRIDGED_KINDS)
        lines = [
            f"# {self.comment}",
            "apiVersion: resource.k8s.io/v1",
            "kind: DeviceClass",
            f"metadata: {{name: {self.name}}}",
            "spec:",
            *([f"  extendedResourceName: {self.resource}"] if self.by_scheduler else []),
            "  selectors:",
            "  - cel:",
            "      expression: >-",
            f'        device.driver == "{self.driver}" && device.attributes["{self.driver}"].kind in [{kinds}]',
            f'        && device.attributes["{self.driver}"].resource == "{self.resource}"',
        ]
        return "\n".join(lines) + "\n"


def refusal_of(resource: str) -> str:
    """Why no device class can have the name of the resource; "" if one can."""
    found = _NAME.fullmatch(resource)
    if found is None:
        return "must be DOMAIN/NAME, such as amd.com/gpu"
    if found["domain"].startswith("requests.") or "kubernetes.io" in found["domain"]:
        return "names of Kubernetes and those that begin with requests. cannot be extended resources"
    if len(found["name"]) > _LONGEST:
        return f"what follows the slash has more than {_LONGEST} characters"
    return ""


def class_of(resource: PublishedResource, names: Names, *, by_scheduler: bool) -> ResourceClass:
    """The class of a resource for which ``refusal_of`` is "", such as ``gpu.amd.com.lode.dev``.

    Resources differ by letters that names of classes cannot have; then a digest is added.
    """
    domain, _, last = resource.name.partition("/")
    name = _EMPTY_ENDS.sub(".", _NOT_IN_NAMES.sub("-", f"{last}.{domain}".lower()))
    if name != f"{last}.{domain}":
        first, _, rest = name.partition(".")
        name = f"{first}-{hashlib.sha256(resource.name.encode()).hexdigest()[:6]}.{rest}"
    comment = f"{resource.name} of a device plugin"
    if resource.devices:
        comment += f": devices: {resource.devices}, nodes: {resource.nodes}"
    return ResourceClass(f"{name}.{names.driver}", resource.name, names.driver, by_scheduler, comment)


def published(slices: Iterable[Object], names: Names) -> list[PublishedResource]:
    """The resources of device plugins in slices of our driver, by name. What makes no sense is left out."""
    devices: dict[str, set[tuple[str, str]]] = {}
    for part in slices:
        try:
            spec = part["spec"]
            node = str(spec.get("nodeName", ""))
            found = [
                (it["attributes"], str(it["name"]))
                for it in spec.get("devices") or ()
                if spec["driver"] == names.driver
            ]
            for attributes, device in found:
                value = (attributes.get(names.attribute("resource")) or attributes.get("resource") or {}).get("string")
                if isinstance(value, str) and not refusal_of(value):
                    devices.setdefault(value, set()).add((node, device))
        except SENSELESS:
            continue
    return [
        PublishedResource(name, len(found), len({node for node, _ in found})) for name, found in sorted(devices.items())
    ]
