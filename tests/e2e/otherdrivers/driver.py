"""A DRA driver that stands for one of somebody else: what runs it on every worker, in Lode's image."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.client import Client, Object, eventually, names
from tests.e2e.otherdrivers import program
from tests.e2e.otherdrivers.program import CDI, KUBELET

_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class OtherDriver:
    """A driver, with what each worker has of its devices.

    Attributes:
        name: the driver's name.
        app: the name of its DaemonSet, and the label ``app`` of its pods.
        classes: the device classes, with the expression of each.
        devices: the devices, as `program` is told of them.
    """

    name: str
    app: str
    classes: Mapping[str, str]
    devices: Sequence[Mapping[str, Any]]

    @property
    def files(self) -> str:
        """The pattern of the files of prepared claims on a node."""
        return f"{CDI}/{self.name}-*"

    def objects(self) -> Sequence[Object]:
        """The DaemonSet, its rights, and the classes."""
        rules = [
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["get", "create", "update"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        ]
        rbac, metadata = "rbac.authorization.k8s.io", {"name": self.app}
        subject = {"kind": "ServiceAccount", "name": self.app, "namespace": _NAMESPACE}
        return [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": _NAMESPACE}},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": self.app},
                "subjects": [subject],
            },
            *(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "DeviceClass",
                    "metadata": {"name": name},
                    "spec": {"selectors": [{"cel": {"expression": expression}}]},
                }
                for name, expression in self.classes.items()
            ),
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {**metadata, "namespace": _NAMESPACE},
                "spec": {
                    "selector": {"matchLabels": {"app": self.app}},
                    "template": {"metadata": {"labels": {"app": self.app}}, "spec": self._pod_spec()},
                },
            },
        ]

    def install(self, client: Client) -> None:
        """Install it, or this version of it, and wait until it runs and publishes everywhere."""
        client.apply(_NAMESPACE, *self.objects())
        command = ("rollout", "status", f"daemonset/{self.app}", "--timeout=120s")
        client.kubectl("-n", _NAMESPACE, *command, timeout=130)
        workers = set(client.cluster.workers)
        eventually(
            f"the devices of {self.name} are published",
            lambda: workers <= {it["spec"]["nodeName"] for it in self.slices(client)},
        )

    def remove(self, client: Client) -> None:
        """Remove it, and what it has published."""
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects()})
        client.kubectl("delete", "--ignore-not-found", "--cascade=foreground", "-f", "-", input=content, timeout=120)
        client.kubectl("delete", "resourceslices", "--ignore-not-found", *names(self.slices(client)))

    def slices(self, client: Client) -> list[Object]:
        """The slices with its devices."""
        return client.list("resourceslices", fields=f"spec.driver={self.name}")

    def _pod_spec(self) -> Object:
        folders = {"registry": f"{KUBELET}/plugins_registry", "plugins": f"{KUBELET}/plugins", "cdi": CDI}
        text = Path(program.__file__).read_text()
        return {
            "serviceAccountName": self.app,
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": "main",
                    "image": "lode-dra:dev",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", text, self.name, json.dumps(self.devices)],
                    "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                    "securityContext": {"runAsUser": 0, "privileged": True},
                    "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
                }
            ],
            "volumes": [
                {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
                for name, path in folders.items()
            ],
        }
