"""Reads the world: the API, the disks of nodes, and what the processes of containers see."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from testclusters.commands import CommandFailed
from tests.chaos.world import SCAN, NodeReading, Reading, node_from
from tests.e2e.client import Client

KINDS: Final = (
    NAMESPACES,
    NODES,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    PODS,
    RESOURCE_CLAIMS,
)


def read(client: Client) -> Reading:
    """Read everything; a node that does not answer is left out.

    Raises:
        CommandFailed: the API server does not answer.
    """
    workers = client.cluster.workers
    with ThreadPoolExecutor(len(workers)) as pool:
        scans = [pool.submit(_scan, client, node) for node in workers]
        objects = {kind: tuple(client.list(kind.plural)) for kind in KINDS}
        nodes = tuple(node for scan in scans if (node := scan.result()))
    return Reading(objects, nodes)


def _scan(client: Client, node: str) -> NodeReading | None:
    try:
        return node_from(node, client.cluster.node_exec(node, "sh", "-c", f"{SCAN}\ntrue", timeout=30).stdout)
    except (CommandFailed, subprocess.TimeoutExpired):
        return None
