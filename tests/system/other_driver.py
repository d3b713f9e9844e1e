"""Devices of another driver, which no node publishes: they are reached from all nodes, or from some."""

from driver.kube.api import Object

DRIVER = "nic.example.com"
SHARED_PORT = f'device.attributes["{DRIVER}"].?port.orValue(false)'
"""Selects a device that all pods of all nodes can use together."""


def device_class() -> Object:
    """The class of the other driver's devices."""
    expression = f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def slices() -> list[Object]:
    """Two cards that every node can use, a port that all of them share, and one shared card for each of two nodes.

    The shared cards are alike but for the units in which they are given.
    """
    exclusive = [{"name": f"nic-{index}"} for index in range(2)]
    return [
        _slice("everywhere", {"allNodes": True}, exclusive),
        _slice("first", _on("n1"), [_shared("1", "2", "10")]),
        _slice("second", _on("n2"), [_shared("1", "4", "8")]),
        _slice("port", {"allNodes": True}, [_port()]),
    ]


def _shared(default: str, *others: str) -> Object:
    policy = {"default": default, "validValues": [default, *others]}
    capacity = {"bandwidth": {"value": "10", "requestPolicy": policy}}
    return {"name": "nic-shared", "allowMultipleAllocations": True, "capacity": capacity}


def _port() -> Object:
    return {"name": "port", "allowMultipleAllocations": True, "attributes": {"port": {"bool": True}}}


def _on(node: str) -> Object:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _slice(name: str, where: Object, devices: list[Object]) -> Object:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{DRIVER}-{name}"},
        "spec": {"driver": DRIVER, "pool": pool, **where, "devices": devices},
    }
