"""The flavors of the driver, and switching between them."""

import json
import os
from pathlib import Path

import yaml

from tests.e2e.client import Client, Object, eventually
from tests.e2e.nodes import published_slices

MANIFESTS = Path(__file__).parents[2] / "manifests"
CONTROLLER_ALLOCATED = MANIFESTS / "kind"
SCHEDULER_ALLOCATED = MANIFESTS / "kind-scheduler-allocated"
VENDORS_LIBRARIES = Path(__file__).parent / "hardware/overlay"
"""Controller-allocated, with the vendors' libraries instead of simulated hardware."""
BRIDGING = Path(__file__).parent / "bridged/overlay"
"""Controller-allocated, on nodes whose devices vendors' device plugins serve."""
FLAVORS = (CONTROLLER_ALLOCATED, SCHEDULER_ALLOCATED, VENDORS_LIBRARIES, BRIDGING)


def install(client: Client, flavor: Path, *replaced: Path) -> None:
    """Install a flavor, remove the objects that only others have, and wait until its programs are ready.

    Args:
        replaced: what may be installed instead of it and is none of `FLAVORS`.
    """
    wanted = {_key(obj) for obj in _objects(client, flavor)}
    others = {_key(obj): obj for other in (*FLAVORS, *replaced) for obj in _objects(client, other)}
    surplus = [obj for key, obj in others.items() if key not in wanted]
    client.kubectl("apply", "-k", str(flavor))
    if surplus:
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": surplus})
        client.kubectl("delete", "--ignore-not-found", "--cascade=foreground", "-f", "-", input=content, timeout=120)
    wait_until_installed(client)


def also_allocating(folder: Path, *drivers: str) -> Path:
    """Write into ``folder`` the flavor in which the controller allocates the devices of these drivers, too.

    ``manifests/also-allocates`` is copied with their names in place of dra.net, as its head says.
    """
    instead = {
        '"dra.net"': ",".join(f'"{driver}"' for driver in drivers),
        ", dra.net": "".join(f", {driver}" for driver in drivers),
        "dra[.]net": "|".join(driver.replace(".", "[.]") for driver in drivers),
        "[dra.net]": f"[{', '.join(drivers)}]",
    }
    component = folder / "also"
    component.mkdir()
    for file in (MANIFESTS / "also-allocates").iterdir():
        text = file.read_text()
        for one, others in instead.items():
            text = text.replace(one, others)
        (component / file.name).write_text(text)
    kind = os.path.relpath(CONTROLLER_ALLOCATED, folder)
    (folder / "kustomization.yaml").write_text(f"resources: [{kind}]\ncomponents: [{component.name}]\n")
    return folder


def wait_until_installed(client: Client) -> None:
    """Wait until all programs are ready and every node has published its slices."""
    own = "app.kubernetes.io/part-of=lode"
    for workload in (*client.list("daemonsets", labels=own), *client.list("deployments", labels=own)):
        namespace, name = workload["metadata"]["namespace"], workload["metadata"]["name"]
        path = f"{workload['kind']}/{name}"
        client.kubectl("-n", namespace, "rollout", "status", path, "--timeout=120s", timeout=130)
    pools = {f"{worker}/lode.dev" for worker in client.cluster.workers}
    eventually("every worker has published its cards", lambda: pools <= set(published_slices(client)))


def _objects(client: Client, flavor: Path) -> list[Object]:
    return [obj for obj in yaml.safe_load_all(client.kubectl("kustomize", str(flavor))) if obj]


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
