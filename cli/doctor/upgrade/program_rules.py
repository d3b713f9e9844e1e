"""What programs of Kubernetes 1.38 do not take: feature gates, clients of an old API, drivers at the kubelet. Pure.

A program of 1.38 that is told a feature gate that is gone, or locked, ends at its start. Source:
k8s.io/kubernetes/pkg/features and the packages ``features`` of its libraries, 1.38.0-beta.0 beside 1.37.1.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.findings import Finding, ok
from cli.doctor.node_checks import PluginSocket
from cli.doctor.upgrade.concerns import Concern
from driver.kube.api import Object, Resource
from driver.kube.objects import object_key
from driver.limits import MAX_SOCKET_PATH, bounded, is_driver_name

REMOVED: Final = frozenset(
    """
    AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds CRDValidationRatcheting
    CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
    InPlacePodVerticalScaling JobManagedBy KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
    NFTablesProxyMode NodeSwap PodGroupPreemptionPolicy PodSchedulingReadiness PreferSameTrafficDistribution
    RecoverVolumeExpansionFailure SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
    WinDSR WinOverlay WindowsHostNetwork
    """.split()
)
LOCKED: Final = frozenset(
    """
    AuthorizePodWebsocketUpgradeCreatePermission DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
    DRAPartitionableDevices EnvFiles ExtendWebSocketsToKubelet HPAGeneration PortForwardWebsockets
    StrictIPCIDRValidation TranslateStreamCloseWebsocketRequests
    """.split()
)
"""Those that are on, and can no longer be turned off."""


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


GONE: Final = Resource("resource.k8s.io", "v1beta1", "resourceslices", "ResourceSlice", namespaced=False)
"""A kind in the version of the API that 1.38 does not serve."""
_CLIENTS: Final = "API clients"
_MOST: Final = 20
"""Clients that are named."""


@dataclass(slots=True)
class _Client:
    objects: int
    example: str
    last: str
    """When it wrote last, RFC 3339 in UTC; "" if no object says it."""


class Clients:
    """Gathers from the managed fields of objects who has written them by the version that is gone."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._others = 0

    def add(self, subject: str, obj: Object) -> None:
        """Take what an object says of those who wrote it."""
        for entry in obj["metadata"].get("managedFields") or ():
            if entry.get("apiVersion") != GONE.api_version:
                continue
            name, time = bounded(str(entry.get("manager") or "?"), 60), str(entry.get("time") or "")
            known = self._clients.get(name)
            if known is not None:
                known.objects, known.last = known.objects + 1, max(known.last, time)
            elif len(self._clients) < _MOST:
                self._clients[name] = _Client(1, f"{subject} {object_key(obj)}", time)
            else:
                self._others += 1

    def findings(self, *, served: bool) -> list[Finding]:
        """What is found, where the version is ``served`` now; where it is not, nobody can be using it."""
        subject = GONE.api_version
        if not served:
            return [ok(_CLIENTS, subject, "is not served here either, so nobody uses it")]
        found = [
            Finding(
                "failed",
                _CLIENTS,
                name,
                f"writes by {subject}, which 1.38 does not serve: {client.objects} objects, such as {client.example}, "
                f"last at {client.last or 'a time that is not known'}",
                f"install a version of {name} that uses resource.k8s.io/v1; if it is gone, there is nothing to do",
            )
            for name, client in sorted(self._clients.items())
        ]
        if self._others:
            message = f"{self._others} more writes by {subject}, of further clients"
            found.append(Finding("failed", _CLIENTS, "others", message, "update those that are named, and look again"))
        message = "is served here, and not by 1.38; who only reads by it leaves no trace in objects"
        remedy = (
            f"remove {subject} from --runtime-config of kube-apiserver, and see that everything works on; "
            "the metric apiserver_requested_deprecated_apis says whether somebody asks for it"
        )
        return [*found, Finding("warning", _CLIENTS, subject, message, remedy)]


_REGISTRATION: Final = "registration"
_PLAIN: Final = re.compile(r"(?!//)[^%?#\x00-\x1f\x7f]*")
"""A path that reads the same as part of a URL, as the gRPC of the kubelet reads it."""


def check_registrations(sockets: Iterable[PluginSocket]) -> Iterator[Finding]:
    """What is found of each driver that answers at its socket."""
    for socket in sockets:
        if not socket.driver and not socket.endpoint:
            continue
        subject = bounded(socket.driver or socket.path, 120)
        faults = [*_endpoint(socket.endpoint), *_name(socket.driver)]
        remedy = (
            f"start the driver with a shorter, absolute path for its sockets and a valid name, or install a version "
            f"of it that has them; it registers at {bounded(socket.path, 120)}"
        )
        for fault in faults:
            yield Finding(
                "failed", _REGISTRATION, subject, f"{fault}: the kubelet of 1.38 does not register it", remedy
            )
        if not faults:
            yield ok(_REGISTRATION, subject, "the kubelet of 1.38 registers it, too")


def _endpoint(path: str) -> Iterator[str]:
    shown = bounded(path, 120)
    if not path.startswith("/"):
        yield f"its endpoint {shown!r} is no absolute path"
    elif len(path.encode()) > MAX_SOCKET_PATH:
        yield f"its endpoint {shown!r} has {len(path.encode())} bytes, more than {MAX_SOCKET_PATH}"
    elif not _PLAIN.fullmatch(path):
        yield f"its endpoint {shown!r} has characters that a plain path has not"


def _name(name: str) -> Iterator[str]:
    if not is_driver_name(name):
        yield f"{bounded(name, 120)!r} is no name of a driver"
