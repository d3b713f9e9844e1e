"""Who is compared: Lode in both flavours, and the Kubernetes example driver with kube-scheduler allocating."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.clusters.kind import KindCluster

MANIFESTS = Path(__file__).parent.parent / "manifests"
NAMESPACE = "bench"
PEER_IMAGE = "lode-test/dra-example-driver:1"
PEER = "gpu.example.com"


@dataclass(frozen=True)
class Contender:
    """A driver as a user installs it, and the DeviceClass its pods ask for.

    ``programs`` names what to weigh: a label and the command line (as ``pgrep -f`` matches it).
    """

    name: str
    device_class: str
    install: Callable[[KindCluster], None]
    remove: Callable[[KindCluster], None]
    programs: tuple[tuple[str, str], ...]


def _overlay(name: str) -> tuple[Callable[[KindCluster], None], Callable[[KindCluster], None]]:
    path = str(MANIFESTS / name)

    def install(cluster: KindCluster) -> None:
        cluster.kubectl("apply", "-k", path)
        cluster.kubectl(
            "-n", "lode-system", "rollout", "status", "ds/lode-kubeletplugin", "--timeout=120s", timeout=130
        )
        if name == "kind":
            cluster.kubectl(
                "-n", "lode-system", "rollout", "status", "deploy/lode-controller", "--timeout=120s", timeout=130
            )

    def remove(cluster: KindCluster) -> None:
        cluster.kubectl("delete", "-k", path, "--ignore-not-found", "--timeout=100s", timeout=130)
        cluster.kubectl("delete", "resourceslices", "--all")

    return install, remove


def _install_peer(cluster: KindCluster) -> None:
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(_peer_objects()))
    cluster.kubectl("-n", "kube-system", "rollout", "status", "ds/dra-example", "--timeout=120s", timeout=130)


def _remove_peer(cluster: KindCluster) -> None:
    cluster.kubectl("delete", "-f", "-", "--ignore-not-found", input=yaml.safe_dump_all(_peer_objects()), timeout=100)
    cluster.kubectl("delete", "resourceslices", "--all")


def _peer_objects() -> list[dict[str, Any]]:
    """The example driver v0.4.0 with eight devices a node, as its chart would install it."""
    name = {"name": "dra-example"}
    here = {**name, "namespace": "kube-system"}
    everything = ["get", "list", "watch", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": everything},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    folders = {
        "plugins-registry": "/var/lib/kubelet/plugins_registry",
        "plugins": "/var/lib/kubelet/plugins",
        "cdi": "/var/run/cdi",
    }
    fields = {"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    container = {
        "name": "plugin",
        "image": PEER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"privileged": True},
        "env": [
            *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()),
            {"name": "CDI_ROOT", "value": folders["cdi"]},
            {"name": "NUM_DEVICES", "value": "8"},
        ],
        "volumeMounts": [{"name": key, "mountPath": path} for key, path in folders.items()],
    }
    pod = {
        "serviceAccountName": name["name"],
        "containers": [container],
        "volumes": [
            {"name": key, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for key, path in folders.items()
        ],
    }
    labels = {"app": name["name"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    selector = {"cel": {"expression": f"device.driver == '{PEER}'"}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **here}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": here,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": PEER},
            "spec": {"selectors": [selector]},
        },
    ]


CONTROLLER = ("lode controller", "lode controller")
PLUGIN = ("lode kubeletplugin", "lode kubeletplugin")

CONTENDERS = (
    Contender("lode, controller allocates", "gpu.lode.dev", *_overlay("kind"), (PLUGIN, CONTROLLER)),
    Contender("lode, kube-scheduler allocates", "gpu.lode.dev", *_overlay("kind-scheduler-allocated"), (PLUGIN,)),
    Contender(
        "example driver, kube-scheduler allocates",
        PEER,
        _install_peer,
        _remove_peer,
        (("dra-example-kubeletplugin", "dra-example-kubeletplugin"),),
    ),
)
