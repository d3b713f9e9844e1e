"""Objects for the tests, as small as the API allows."""

from driver.kube.api import Object

GATE = "lode.dev/allocation"


def pod(name: str, namespace: str, *, gates: tuple[str, ...] = (GATE,), **spec: object) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            **spec,
        },
    }


def claim_spec(*requests: str) -> Object:
    return {
        "devices": {
            "requests": [
                {"name": name, "exactly": {"deviceClassName": "gpu.lode.dev"}} for name in (requests or ("gpu",))
            ]
        }
    }


def claim(name: str, namespace: str, *requests: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": claim_spec(*requests)}


def allocation(device: str = "gpu-0", node: str = "node-1", request: str = "gpu") -> Object:
    return {
        "devices": {
            "results": [{"request": request, "driver": "lode.dev", "pool": f"{node}/lode.dev", "device": device}]
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        },
        "allocationTimestamp": "2027-01-15T08:00:00Z",
    }


def consumer(uid: str) -> Object:
    """A consumer of a kind that the resource-claim-controller ignores."""
    return {"apiGroup": "lode.example", "resource": "holds", "name": f"hold-{uid}", "uid": uid}


def resource_slice(name: str, *devices: Object, driver: str = "lode.example", **spec: object) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": f"{name}/pool", "generation": 1, "resourceSliceCount": 1},
            "nodeName": f"{name}-node",
            "devices": list(devices) or [{"name": "gpu-0"}],
            **spec,
        },
    }
