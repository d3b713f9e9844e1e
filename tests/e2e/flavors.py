"""The two flavors of the driver, and switching between them."""

import json
from pathlib import Path

import yaml

from tests.e2e.client import Client, Object, eventually
from tests.e2e.nodes import published_slices

MANIFESTS = Path(__file__).parents[2] / "manifests"
CONTROLLER_ALLOCATED = "kind"
SCHEDULER_ALLOCATED = "kind-scheduler-allocated"


def install(client: Client, flavor: str) -> None:
    """Install a flavor, remove the objects that only the other one has, and wait until its programs are ready."""
    wanted = _objects(client, flavor)
    other = CONTROLLER_ALLOCATED if flavor == SCHEDULER_ALLOCATED else SCHEDULER_ALLOCATED
    known = {_key(obj) for obj in wanted}
    surplus = [obj for obj in _objects(client, other) if _key(obj) not in known]
    client.kubectl("apply", "-k", str(MANIFESTS / flavor))
    if surplus:
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": surplus})
        client.kubectl("delete", "--ignore-not-found", "--cascade=foreground", "-f", "-", input=content, timeout=120)
    wait_until_installed(client)


def wait_until_installed(client: Client) -> None:
    """Wait until all programs are ready and every node has published its slices."""
    for workload in client.kubectl("-n", "lode-system", "get", "ds,deploy", "-o", "name").split():
        client.kubectl("-n", "lode-system", "rollout", "status", workload, "--timeout=120s", timeout=130)
    pools = {f"{worker}/lode.dev" for worker in client.cluster.workers}
    eventually("every worker has published its cards", lambda: pools <= set(published_slices(client)))


def _objects(client: Client, flavor: str) -> list[Object]:
    return [obj for obj in yaml.safe_load_all(client.kubectl("kustomize", str(MANIFESTS / flavor))) if obj]


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
