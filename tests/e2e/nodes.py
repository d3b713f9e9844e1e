"""The state of the nodes: published slices, prepared claims, and files of claims."""

import json
from collections.abc import Collection, Mapping

from tests.e2e.client import Client, Object

PLUGIN = "/var/lib/kubelet/plugins/lode.dev"
PLUGIN_NAMESPACE = "lode-plugin"
PLUGINS = "app.kubernetes.io/name=lode-kubeletplugin"
"""Selects the plugins' pods."""
PLUGIN_ACCOUNT = f"system:serviceaccount:{PLUGIN_NAMESPACE}:lode-kubeletplugin"
_HARDWARE = f"{PLUGIN}/simulated.json"
_FILES = (
    f"find /var/run/cdi {PLUGIN} -type f \\( -name '*.json' -o -name '*.tmp' \\) "
    f"! -name 'checkpoint*' ! -name health.json ! -name failed-cards.json ! -path {_HARDWARE} 2>/dev/null"
)


_THAW = """
for state in $(grep -ls FROZEN $(find /sys/fs/cgroup/freezer/kubelet* -name freezer.state 2>/dev/null) /dev/null)
do echo THAWED > $state; done
for state in $(grep -lsx 1 $(find /sys/fs/cgroup/kubelet* -name cgroup.freeze 2>/dev/null) /dev/null)
do echo 0 > $state; done
"""


def thaw(client: Client) -> None:
    """Thaw processes that runc left frozen on the workers, with any version and driver of cgroups.

    runc freezes a container while it sets up its cgroup. If it is killed at that moment, the container stays frozen,
    and the pod can neither start nor stop. runc is killed when containerd dies, and when the kubelet cancels a call
    because the kubelet died or the pod was deleted while it started. That can happen at any time, so this function is
    called repeatedly while tests wait for pods. It is not a fault of the driver.
    """
    for node in client.cluster.workers:
        client.cluster.node_exec(node, "sh", "-c", _THAW, check=False)


def published_slices(client: Client) -> dict[str, list[Object]]:
    """Our slices by pool, without generations, which always increase."""
    pools: dict[str, list[Object]] = {}
    for raw in client.list("resourceslices", "", "--field-selector=spec.driver=lode.dev"):
        spec = raw["spec"]
        pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
        pools.setdefault(pool["name"], []).append({**spec, "pool": pool})
    return {name: sorted(specs, key=json.dumps) for name, specs in pools.items()}


def prepared_claims(client: Client, node: str) -> dict[str, Object]:
    """The claims in a node's checkpoint, by uid."""
    text = client.cluster.node_exec(node, "sh", "-c", f"cat {PLUGIN}/checkpoint* 2>/dev/null || true").stdout
    return dict(json.loads(text.splitlines()[1])["claims"]) if text else {}


def claim_files(client: Client, node: str) -> list[str]:
    """The CDI specs and metadata files of claims on a node, and temporary files."""
    return sorted(client.cluster.node_exec(node, "sh", "-c", _FILES, check=False).stdout.split())


def own_files(client: Client) -> dict[str, list[str]]:
    """All files and sockets of the plugin on the workers, but not the state of simulated cards."""
    folders = f"{PLUGIN} /var/lib/kubelet/plugins_registry/lode.dev* /var/run/cdi/lode.dev*"
    command = f"find {folders} ! -type d ! -path {_HARDWARE} 2>/dev/null"
    found = {
        node: client.cluster.node_exec(node, "sh", "-c", command, check=False).stdout.split()
        for node in client.cluster.workers
    }
    return {node: files for node, files in found.items() if files}


def on_hardware(client: Client, node: str) -> list[str]:
    """The partitions, daemons and modes that exist on a node's simulated cards."""
    text = client.cluster.node_exec(node, "sh", "-c", f"cat {_HARDWARE} 2>/dev/null || true").stdout
    existing = json.loads(text)["existing"] if text else []
    return sorted(f"on hardware: {json.dumps(item['action'])}" for item in existing)


def leftovers(client: Client, uids: Collection[str] | None = None) -> dict[str, list[str]]:
    """What claims have on the workers, the claims ``uids`` or any: files, entries of checkpoints, partitions."""
    found = {
        node: [*claim_files(client, node), *sorted(prepared_claims(client, node)), *on_hardware(client, node)]
        for node in client.cluster.workers
    }
    selected = {
        node: [item for item in items if uids is None or any(uid in item for uid in uids)]
        for node, items in found.items()
    }
    return {node: items for node, items in selected.items() if items}


def changed_pools(before: Mapping[str, list[Object]], now: Mapping[str, list[Object]]) -> list[str]:
    """The pools whose slices have changed."""
    return sorted(pool for pool in before.keys() | now.keys() if before.get(pool) != now.get(pool))
