"""The objects of Lode on the cluster of a run, from what a version's manifests say. Pure.

The flavor is the one with adoption of every system. On one worker, another DaemonSet of the kubelet plugin serves the
devices of a vendor's device plugin instead of simulated cards.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.e2e.nodes import PLUGIN_NAMESPACE

Object = dict[str, Any]

PLUGIN: Final = "lode-kubeletplugin"
BRIDGING: Final = "lode-bridging"
"""The DaemonSet on the worker of the device plugin."""
OFF_LABEL: Final = "lode.dev/kubeletplugin"
"""The node label that keeps the usual plugin from a node, if it is ``off``."""
_NAME_LABEL: Final = "app.kubernetes.io/name"
_SETTINGS: Final = {
    "logLevel": "debug",
    "observeAddress": ":8080",
    "kubeletplugin": {"hardware": "deviceplugin", "bootIdFile": "/run/lode/boot-id", "recoverySeconds": 2},
}


def installed(rendered: Sequence[Object], image: str) -> Sequence[Object]:
    """The objects to apply, in order.

    Args:
        rendered: what kustomize makes of the flavor.
        image: the image of a version of Lode, for all programs.
    """
    objects = copy.deepcopy(list(rendered))
    for one in objects:
        for container in _containers(one):
            container["image"] = image
    (plugin,) = [it for it in objects if it["kind"] == "DaemonSet" and it["metadata"]["name"] == PLUGIN]
    return [*objects, *_bridging(plugin)]


def _containers(obj: Object) -> Iterator[Object]:
    spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    yield from (*spec.get("containers", ()), *spec.get("initContainers", ()))


def _bridging(plugin: Object) -> Iterator[Object]:
    """The settings and the DaemonSet of the plugin that serves device plugins."""
    metadata = {"name": BRIDGING, "namespace": PLUGIN_NAMESPACE}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"settings.yaml": json.dumps(_SETTINGS)},
    }
    made = copy.deepcopy(plugin)
    made["metadata"]["name"] = BRIDGING
    template = made["spec"]["template"]
    for labels in (made["metadata"]["labels"], made["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]):
        labels[_NAME_LABEL] = BRIDGING
    spec = template["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for expression in (it for term in terms for it in term["matchExpressions"] if it["key"] == OFF_LABEL):
        expression["operator"] = "In"
    for volume in spec["volumes"]:
        if volume["name"] == "settings":
            volume["configMap"]["name"] = BRIDGING
    # As manifests/deviceplugin says.
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    mount = {"name": "host", "mountPath": "/host", "readOnly": True, "mountPropagation": "HostToContainer"}
    spec["containers"][0]["volumeMounts"].append(mount)
    yield made
