"""A namespace, a driver and a node of one test, for commands on a real API server.

Each test uses a separate driver name, which separates it from other objects in the control plane.
"""

from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    NotFound,
    Object,
)
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.objects import pod


class Sandbox:
    """A namespace, a driver and a node for one test: two cards, and a template for one of them."""

    def __init__(self, api: Api, plane: ControlPlane, name: str):
        self.api, self.plane, self.name = api, plane, name
        self.driver = f"{name}.example"
        self.kubeconfig = str(plane.kubeconfig())
        api.create(NAMESPACES, {"metadata": {"name": name}})
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", name))
        plane.add_node(name)
        expression = {"cel": {"expression": f"device.driver == '{self.driver}'"}}
        api.create(DEVICE_CLASSES, {"metadata": {"name": self.driver}, "spec": {"selectors": [expression]}})
        devices = [{"name": card, "capacity": {"memory": {"value": "1Gi"}}} for card in ("card-0", "card-1")]
        spec = {"driver": self.driver, "nodeName": name, "devices": devices}
        pool = {"name": f"{name}/{self.driver}", "generation": 1, "resourceSliceCount": 1}
        api.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": {**spec, "pool": pool}})
        self.claim_spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": self.driver}}]}}
        api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "card"}, "spec": {"spec": self.claim_spec}}, name)

    def pod(self, name: str, *gates: str) -> Object:
        """A pod at our gate, and at others, that requests a card, returned after the resource-claim-controller has
        created its claim.
        """
        entry = {"name": "t", "resourceClaimTemplateName": "card"}
        self.api.create(PODS, pod(name, self.name, gates=(f"{self.driver}/allocation", *gates), resourceClaims=[entry]))

        def with_claim() -> Object | None:
            read = self.api.get(PODS, name, self.name)
            return read if read["status"].get("resourceClaimStatuses") else None

        read: Object = eventually(with_claim)
        return read

    def hold(self, user: Object, device: str) -> Object:
        """Allocate the pod's claim, as the controller would."""
        name = user["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        claim = self.api.get(RESOURCE_CLAIMS, name, self.name)
        result = {"request": "r", "driver": self.driver, "pool": f"{self.name}/{self.driver}", "device": device}
        fields = [{"key": "metadata.name", "operator": "In", "values": [self.name]}]
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            "allocationTimestamp": "2027-01-15T08:00:00Z",
        }
        holder = {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
        status = {"allocation": allocation, "reservedFor": [holder]}
        return self.api.update(RESOURCE_CLAIMS, {**claim, "status": status}, "status")

    def remove(self) -> None:
        for resource, name in (
            (RESOURCE_SLICES, self.name),
            (DEVICE_CLASSES, self.driver),
            (NODES, self.name),
            (NAMESPACES, self.name),
        ):
            try:
                self.api.delete(resource, name)
            except NotFound:
                continue
