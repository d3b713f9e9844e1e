"""The fleet and the selectors with which the evaluation of selectors is compared."""

import json
from collections.abc import Iterator

from driver.wire import Json

NODES = 10_000
PER_NODE = 8
OTHER_DRIVER = 10
"""One node in this many has devices of another driver."""
TYPES = ("A100", "H100", "L40S", "T4")
VERSIONS = ("535.129.3", "550.54.14", "570.86.15")

_GUARD = 'device.driver == "gpu.example.com" && '
_A = 'device.attributes["gpu.example.com"]'
_C = 'device.capacity["gpu.example.com"]'
SELECTORS = {
    "type and memory": f'{_GUARD}{_A}.type == "A100" && {_C}.memory.compareTo(quantity("40Gi")) >= 0',
    "type in a list": f'{_GUARD}{_A}.type in ["A100", "H100", "L40S"]',
    "driver version": f'{_GUARD}{_A}.driverVersion.compareTo(semver("550.0.0")) >= 0',
    "true": "true",
    "error everywhere": f'{_A}.nosuch == "A100"',
}
"""The selectors by their names in the table."""


def cluster(nodes: int = NODES) -> Iterator[str]:
    """Nodes with eight devices each, with five attributes and two capacities per device: a line of JSON each."""
    yield _line("DeviceClass", "any", spec={})
    for number in range(nodes):
        yield _line("Node", f"node-{number:05}")
        driver = "nic.example.com" if number % OTHER_DRIVER == 0 else "gpu.example.com"
        spec = {
            "driver": driver,
            "nodeName": f"node-{number:05}",
            "pool": {"name": f"node-{number:05}", "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number, index) for index in range(PER_NODE)],
        }
        yield _line("ResourceSlice", f"node-{number:05}", spec=spec)


def _device(node: int, index: int) -> Json:
    model = TYPES[node % len(TYPES)]
    attributes = {
        "type": {"string": model},
        "uuid": {"string": f"uuid-{node}-{index}"},
        "index": {"int": index},
        "ecc": {"bool": model != "T4"},
        "driverVersion": {"version": VERSIONS[node // 7 % len(VERSIONS)]},
    }
    capacity = {"memory": {"value": "16Gi" if model == "T4" else "80Gi"}, "cores": {"value": "100"}}
    return {"name": f"device-{index}", "attributes": attributes, "capacity": capacity}


def _line(kind: str, name: str, **more: object) -> str:
    return json.dumps({"kind": kind, "metadata": {"name": name, "labels": {}}, **more}) + "\n"
