"""NVIDIA's driver for ComputeDomains: what it publishes of a node, its classes and templates, and pods beside it.

Source: version 0.5 of kubernetes-sigs/dra-driver-nvidia-gpu, ``deviceinfo.go`` of its kubelet plugin, the device
classes of its chart, and its template of the claims of workloads and daemons.
"""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from driver.kube.api import Object

DRIVER: Final = "compute-domain.nvidia.com"
CHANNEL: Final = "compute-domain-default-channel.nvidia.com"
"""The class of the channel of each node."""
DAEMON: Final = "compute-domain-daemon.nvidia.com"
"""The class of what the daemon on each node holds."""
_ATTRIBUTES: Final = f"device.attributes['{DRIVER}']"
CLASSES: Final = {
    CHANNEL: f"device.driver == '{DRIVER}' && {_ATTRIBUTES}.type == 'channel' && {_ATTRIBUTES}.id == 0",
    DAEMON: f"device.driver == '{DRIVER}' && {_ATTRIBUTES}.type == 'daemon'",
}
"""The expression of each class."""
DEVICES: Final[tuple[Object, ...]] = tuple(
    {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}} for kind in ("channel", "daemon")
)
"""Of each node."""
_PAGE: Final = Path(__file__).parents[1] / "docs" / "nvlink-domains.md"
((_JOB),) = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL)


def claim_template(domain: str, kind: str = "channel") -> Object:
    """The template ``<domain>-channel`` that a ComputeDomain gets for pods, or the one of its daemons."""
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": f"ComputeDomain{kind.capitalize()}Config",
        "domainID": f"uid-{domain}",
        **({"allocationMode": "Single"} if kind == "channel" else {}),
    }
    devices = {
        "requests": [{"name": kind, "exactly": {"deviceClassName": {"channel": CHANNEL, "daemon": DAEMON}[kind]}}],
        "config": [{"requests": [kind], "opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"{domain}-{kind}"},
        "spec": {"spec": {"devices": devices}},
    }


def job_of_the_page(pods: int = 9, name: str = "half-rack") -> list[Object]:
    """The objects of docs/nvlink-domains.md, with the template of the ComputeDomain in its place; the Job is last."""
    written: list[dict[str, Any]] = list(yaml.safe_load_all(_JOB.replace("half-rack", name)))
    objects = [one for one in written if one["kind"] != "ComputeDomain"]
    objects[-1]["spec"].update(parallelism=pods, completions=pods)
    return [claim_template(name), *objects]
