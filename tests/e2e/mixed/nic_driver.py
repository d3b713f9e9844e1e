"""A DRA driver of network cards for tests: what it has, and what runs it on every worker, in Lode's image."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.mixed import nic_program
from tests.e2e.mixed.nic_program import CDI, DRIVER, KUBELET

LABEL: Final = "app=nic-driver"
CARDS: Final = (
    {"name": "nic-0", "ifName": "rdma0", "pcieRoot": "pci0000:00", "numaNode": 0},
    {"name": "nic-1", "ifName": "rdma1", "pcieRoot": "pci0000:40", "numaNode": 1},
    {"name": "nic-2", "ifName": "rdma2", "pcieRoot": "pci0000:15", "numaNode": 0},
    {"name": "nic-3", "ifName": "rdma3", "pcieRoot": "pci0000:97", "numaNode": 1},
)
"""The network cards of each worker: two on PCIe roots of simulated A100 cards, two on those of H100 cards."""
_VERSION: Final = "1"


def objects(version: str = _VERSION) -> Sequence[dict[str, Any]]:
    """The DaemonSet, its rights, and the class ``dranet.net``; another version is another program."""
    name, namespace = "nic-driver", "kube-system"
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["get", "create", "update"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    rbac, metadata = "rbac.authorization.k8s.io", {"name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "dranet.net"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": _pod_spec(name, version)},
            },
        },
    ]


def _pod_spec(account: str, version: str) -> dict[str, Any]:
    folders = {"registry": f"{KUBELET}/plugins_registry", "plugins": f"{KUBELET}/plugins", "cdi": CDI}
    return {
        "serviceAccountName": account,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {
                "name": "main",
                "image": "lode-dra:dev",
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", Path(nic_program.__file__).read_text(), json.dumps(CARDS), version],
                "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "securityContext": {"runAsUser": 0, "privileged": True},
                "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
            }
        ],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in folders.items()
        ],
    }
