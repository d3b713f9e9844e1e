"""The device plugins of a node, and how a node is taken from one of them and given back. Pure.

A DaemonSet leaves a node when a label of the node no longer fits. Which label that was is written on the node itself,
in an annotation, so that every later call knows it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from driver.errors import SENSELESS, OperatorFault
from driver.kube.api import Object
from driver.kube.objects import is_terminal, object_key
from kubeletplugin.hardware.vendors import vendor_of_resource
from kubeletplugin.publish.other_drivers import device_count

RECORD: Final = "lode.dev/handover"
"""The annotation of a node that was handed over."""
MARK: Final = "lode.dev/handed-over"
"""The label of a node that was handed over, for DaemonSets that have no label of their own."""
_SOCKETS: Final = "/device-plugins"
"""The end of the folder in which device plugins find the kubelet."""
_SHARED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
"""Domains of labels that say what a node is. They are never changed."""

Phase = Literal["taken", "closing", "back"]


@dataclass(frozen=True, slots=True)
class Record:
    """The annotation of a node that was handed over.

    Attributes:
        daemon_set: ``namespace/name`` of the device plugin.
        label: the label that keeps it away.
        value: what the label was before; None if the node did not have it.
        phase: ``closing`` while its cards are closed to claims before it is given back, ``back`` from when the device
            plugin may return.
        cordoned: whether all its cards were cordoned before that.
    """

    daemon_set: str
    label: str
    value: str | None = None
    phase: Phase = "taken"
    cordoned: bool = False

    def text(self) -> str:
        """The value of the annotation."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """A DaemonSet whose pod registers devices with the kubelet of a node.

    Attributes:
        key: ``namespace/name``.
        labels: its ``nodeSelector``.
        avoids_mark: whether it stays away from nodes with ``MARK``.
        has_affinity: whether it requires more of nodes, by an affinity.
    """

    key: str
    labels: Mapping[str, str] = field(default_factory=dict)
    avoids_mark: bool = False
    has_affinity: bool = False


def record_of(node: Object) -> Record | None:
    """The node's record; None if it was not handed over.

    Raises:
        OperatorFault: the annotation is not one of ours.
    """
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    if text is None:
        return None
    try:
        found = Record(**json.loads(text))
        texts = (found.daemon_set, found.label, found.value or "")
        if all(isinstance(it, str) for it in texts) and found.phase in get_args(Phase):
            return found
    except SENSELESS:  # of an annotation that is nested deeply
        pass
    raise OperatorFault(
        f"node {node['metadata']['name']}: the annotation {RECORD} is not one that this command wrote; remove it"
    )


def plugins_on(node: str, pods: Iterable[Object], daemon_sets: Iterable[Object]) -> tuple[DevicePlugin, ...]:
    """The DaemonSets that have a pod on the node which mounts the kubelet's folder for device plugins, by name."""
    keys = {key for pod in pods if (key := _registers(pod, node))}
    found = {known.key: known for obj in daemon_sets if (known := device_plugin(obj)) and known.key in keys}
    return tuple(found[key] for key in sorted(found))


def device_plugin(daemon_set: Object) -> DevicePlugin | None:
    """What matters of a DaemonSet; None if it cannot be read."""
    try:
        spec = daemon_set["spec"]["template"]["spec"]
        wanted = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or {}
        terms = wanted.get("nodeSelectorTerms") or ()
        avoids = [any(_avoids_mark(one) for one in term.get("matchExpressions") or ()) for term in terms]
        return DevicePlugin(
            object_key(daemon_set), dict(spec.get("nodeSelector") or {}), bool(avoids) and all(avoids), bool(terms)
        )
    except SENSELESS:
        return None


def _avoids_mark(expression: Any) -> bool:
    return bool(expression["key"] == MARK and expression["operator"] == "DoesNotExist")


def _registers(pod: Object, node: str) -> str:
    """``namespace/name`` of the DaemonSet of a pod that registers devices on the node; "" if it is none."""
    try:
        spec, metadata = pod["spec"], pod["metadata"]
        if spec.get("nodeName") != node or is_terminal(pod):
            return ""
        folders = [(volume.get("hostPath") or {}).get("path") or "" for volume in spec.get("volumes") or ()]
        if not any(folder.rstrip("/").endswith(_SOCKETS) for folder in folders):
            return ""
        owners = metadata.get("ownerReferences") or ()
        names = [owner["name"] for owner in owners if owner["kind"] == "DaemonSet" and owner.get("controller")]
        return f"{metadata['namespace']}/{names[0]}" if names else ""
    except SENSELESS:
        return ""


def has_pod_on(daemon_set: str, node: str, pods: Iterable[Object]) -> bool:
    """Whether a DaemonSet has a pod on the node that registers devices."""
    return any(_registers(pod, node) == daemon_set for pod in pods)


def start_record(node: Object, plugin: DevicePlugin, daemon_sets: Iterable[Object]) -> Record:
    """The record of a node that is taken from a device plugin: which label makes the plugin leave.

    Raises:
        OperatorFault: no label can be changed without another DaemonSet leaving as well; the message has the remedy.
    """
    labels = node["metadata"].get("labels") or {}
    if plugin.avoids_mark:
        return Record(plugin.key, MARK, labels.get(MARK))
    others = [known for obj in daemon_sets if (known := device_plugin(obj)) and known.key != plugin.key]
    shared: list[str] = []
    for key, value in sorted(plugin.labels.items()):
        if _domain(key).endswith(_SHARED_DOMAINS) or labels.get(key) != value:
            continue
        users = [known.key for known in others if known.labels.get(key) == value]
        if not users:
            return Record(plugin.key, key, value)
        shared.append(f"the label {key}={value} also brings {', '.join(users)}")
    raise OperatorFault(_no_label(node["metadata"]["name"], plugin, shared))


def _domain(label: str) -> str:
    return label.rpartition("/")[0]


def _no_label(node: str, plugin: DevicePlugin, shared: Sequence[str]) -> str:
    namespace, _, name = plugin.key.partition("/")
    expression = {"key": MARK, "operator": "DoesNotExist"}
    why = "; ".join(shared) or "it has no nodeSelector of its own"
    if plugin.has_affinity:
        remedy = f"add {json.dumps(expression)} to every nodeSelectorTerm of its affinity"
    else:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        patch = json.dumps({"spec": {"template": {"spec": {"affinity": affinity}}}})
        remedy = f"kubectl -n {namespace} patch daemonset {name} --type merge -p '{patch}'"
    return (
        f"the device plugin {plugin.key} cannot be kept from node {node} alone: {why}. Let it stay away from nodes "
        f"that were handed over, which starts its pods again, but no pod that has cards: {remedy}"
    )


def label_value(record: Record) -> str | None:
    """The value that keeps the device plugin away, or while the node is given back, the one from before."""
    if record.phase == "back":
        return record.value
    if record.label == MARK:
        return "true"
    return "false" if record.value != "false" else "handed-over"


def users_on(node: str, pods: Iterable[Object]) -> Mapping[str, int]:
    """The pods on the node that have cards from a device plugin, as ``namespace/name``, and how many at most."""
    found = {object_key(pod): count for pod in pods if (count := _devices(pod, node))}
    return dict(sorted(found.items()))


def _devices(pod: Object, node: str) -> int:
    try:
        spec = pod["spec"]
        if spec.get("nodeName") != node or is_terminal(pod):
            return 0
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        limits = ((one.get("resources") or {}).get("limits") or {} for one in containers)
        return sum(
            device_count(amount) for limit in limits for name, amount in limit.items() if vendor_of_resource(name)
        )
    except SENSELESS:
        return 0
