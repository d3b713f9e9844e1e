"""A reading of a simulated cluster, as one of a real cluster would be, for defects to be put into."""

import copy
import json
from dataclasses import replace
from functools import cache

from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.parameters import main_request
from kubeletplugin.hardware.actions import action_to
from tests.chaos.world import CHECKPOINT, ContainerReading, NodeReading, Reading
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.hardware import NodeHardware
from tests.simulation.node import MemoryNode
from tests.system.scenario import Scenario

KINDS = (PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, NODES, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES)


def reading_of(cluster: SimulatedCluster) -> Reading:
    """What the readers of a real cluster would read now."""
    objects = {kind: tuple(copy.deepcopy(cluster.api.list(kind).items)) for kind in KINDS}
    for pod in objects[PODS]:
        if pod["status"].get("phase") == "Running":
            pod["status"].setdefault("conditions", []).append({"type": "Ready", "status": "True"})
    nodes = [_node(node, cluster.hardware[name]) for name, node in cluster.nodes.items()]
    return Reading(objects, tuple(nodes))


def _node(node: MemoryNode, hardware: NodeHardware) -> NodeReading:
    content = node.files.disk.content()
    existing = [{"action": action_to(action)} for action, _ in hardware.store.load().existing.values()]
    containers = [
        ContainerReading(
            uid,
            frozenset((claim, main_request(result.request)) for claim, result in container.devices),
            frozenset(result.device.device.removesuffix("-share") for _, result in container.devices),
        )
        for uid, container in node.containers.items()
    ]
    files = tuple(path for path in content if path.endswith(".json") and path != CHECKPOINT)
    return NodeReading(
        node.name, files, content.get(CHECKPOINT, b""), json.dumps({"existing": existing}), tuple(containers)
    )


@cache
def settled() -> Reading:
    """A cluster of one node with eight cards, of which pods have two cards, a share and a partition."""
    scenario = Scenario()
    for name, template in (("one", "gpu-1"), ("other", "gpu-1"), ("share", "share-small"), ("mig", "mig-small")):
        scenario.create(name, template)
    scenario.settle()
    assert scenario.running("one", "other", "share", "mig")
    return reading_of(scenario.cluster)


def with_node(reading: Reading, **changes: object) -> Reading:
    """The reading with other fields of its one node."""
    (node,) = reading.nodes
    return replace(reading, nodes=(replace(node, **changes),))  # type: ignore[arg-type]
