"""Feature gates that a program of Kubernetes 1.38 does not start with, wherever they are set. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cli.doctor.upgrade.concerns import Concern
from cli.doctor.upgrade.gates import LOCKED, REMOVED
from driver.kube.api import Object

PROGRAMS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "cloud-controller-manager",
)
KUBEADMS: Final = ("kubeadm-config", "kubelet-config", "kube-proxy")
"""ConfigMaps of kubeadm, which writes flags and configurations anew from them."""
_FLAG: Final = re.compile(r"--feature-gates[=\s]\s*[\"']?([A-Za-z0-9:=,]+)")
_MOST_TEXT: Final = 1 << 16
"""Characters of a command line that are read."""
_REMOVED: Final = "1.38 does not know this gate: the program ends at its start"
_LOCKED: Final = "1.38 has this gate locked to on: the program ends at its start"


def of_pod(pod: Object) -> Iterator[Concern]:
    """All concerns about the flags of a program of Kubernetes; none about another pod."""
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(pod["spec"].get(kind) or ()):
            words = [str(word) for part in ("command", "args") for word in container.get(part) or ()]
            line = " ".join(words)[:_MOST_TEXT]
            if not any(program in line for program in PROGRAMS):
                continue
            gates = {name: value for flags in _FLAG.findall(line) for name, value in _pairs(flags)}
            yield from _of_gates(f"spec.{kind}[{i}].command --feature-gates", gates, _where(pod))


def of_config_map(name: str, documents: Iterable[tuple[str, Any]]) -> Iterator[Concern]:
    """All concerns about a ConfigMap of kubeadm, whose ``documents`` are decoded, each with the key of its text."""
    remedy = f"remove it there: kubectl -n kube-system edit configmap {name}"
    for key, document in documents:
        for path, gates in _set_in(document):
            yield from _of_gates(f"data.{key} {path}", gates, remedy)


def of_kubelet(node: str, configuration: Object) -> Iterator[Concern]:
    """All concerns about what the kubelet of a node says of its configuration (``/configz``)."""
    gates = (configuration.get("kubeletconfig") or {}).get("featureGates") or {}
    remedy = f"remove it from featureGates of the kubelet's configuration on node {node}, and restart the kubelet"
    yield from _of_gates("featureGates", gates, remedy)


def _of_gates(path: str, gates: Mapping[str, Any], remedy: str) -> Iterator[Concern]:
    for name, value in gates.items():
        if name in REMOVED:
            yield Concern("failed", path, f"{name}={value}", _REMOVED, remedy)
        elif name in LOCKED and str(value).lower() not in ("true", "t", "1"):
            yield Concern("failed", path, f"{name}={value}", _LOCKED, remedy)


def _pairs(flags: str) -> Iterator[tuple[str, str]]:
    """Names and values of ``A=true,kube:B=false``; a part before a colon is a component."""
    for pair in flags.split(","):
        name, _, value = pair.rpartition(":")[2].partition("=")
        yield name, value


def _where(pod: Object) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName") or "of the control plane"
    if "kubernetes.io/config.mirror" in annotations:
        return f"remove it from the manifest of {name} in the kubelet's folder of static pods on node {node}"
    return f"remove it where the command of {name} is written"


def _set_in(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Gates that a configuration of kubeadm, a kubelet or a kube-proxy sets, each with its path.

    ``featureGates`` of a ClusterConfiguration are those of kubeadm itself.
    """
    if not isinstance(document, dict):
        return
    if document.get("kind") in ("KubeletConfiguration", "KubeProxyConfiguration"):
        gates = document.get("featureGates")
        yield "featureGates", gates if isinstance(gates, dict) else {}
    for part in ("apiServer", "controllerManager", "scheduler"):
        extra = document.get(part)
        arguments = extra.get("extraArgs") if isinstance(extra, dict) else None
        flags = [
            str(one.get("value"))
            for one in _named(arguments)
            if isinstance(one, dict) and one.get("name") == "feature-gates"
        ]
        if flags:
            yield f"{part}.extraArgs feature-gates", dict(pair for flag in flags for pair in _pairs(flag))


def _named(arguments: Any) -> list[Any]:
    """Arguments as v1beta4 has them, a list of names and values; v1beta3 has a mapping."""
    if isinstance(arguments, dict):
        return [{"name": name, "value": value} for name, value in arguments.items()]
    return arguments if isinstance(arguments, list) else []
