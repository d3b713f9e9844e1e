"""The state of the nodes: published slices, prepared claims, and files of claims."""

import json
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.e2e.client import Client, Object

PLUGIN = "/var/lib/kubelet/plugins/lode.dev"
PLUGIN_NAMESPACE = "lode-plugin"
PLUGINS = "app.kubernetes.io/name=lode-kubeletplugin"
"""Selects the plugins' pods."""
PLUGIN_ACCOUNT = f"system:serviceaccount:{PLUGIN_NAMESPACE}:lode-kubeletplugin"
_HARDWARE = f"{PLUGIN}/simulated.json"
_KNOWN = f"{PLUGIN}/device-plugins-state/known.json"
_FILES = (
    f"find /var/run/cdi {PLUGIN} -type f \\( -name '*.json' -o -name '*.tmp' \\) "
    f"! -name 'checkpoint*' ! -name health.json ! -name failed-cards.json ! -name other-programs.json "
    f"! -path {_HARDWARE} ! -path {_KNOWN} 2>/dev/null"
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
    on_workers(client, _THAW)


def on_workers(client: Client, script: str) -> dict[str, str]:
    """What a shell script prints on each worker, by the worker's name; it runs on all of them at once.

    Raises `CommandFailed` if a worker is off; whether a command of the script fails does not matter.
    """
    workers = client.cluster.workers

    def run(node: str) -> str:
        return client.cluster.node_exec(node, "sh", "-c", f"{script}\ntrue").stdout

    with ThreadPoolExecutor(len(workers)) as pool:
        return dict(zip(workers, pool.map(run, workers), strict=True))


_POD_GROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
"""The cgroup of a pod, as both drivers of cgroups call it."""


def pod_of(cgroups: str) -> str:
    """The uid of the pod that a process is in, by what its file ``cgroup`` says; "" for other processes."""
    found = _POD_GROUP.search(cgroups)
    return found[1].replace("_", "-") if found else ""


def with_processes(client: Client, node: str) -> set[str]:
    """The uids of the pods that have processes on the node."""
    command = "cat /proc/[0-9]*/cgroup 2>/dev/null || true"
    return {pod_of(line) for line in client.cluster.node_exec(node, "sh", "-c", command).stdout.splitlines()} - {""}


def published_slices(client: Client) -> dict[str, list[Object]]:
    """Our slices by pool, without generations, which always increase."""
    pools: dict[str, list[Object]] = {}
    for raw in client.list("resourceslices", fields="spec.driver=lode.dev"):
        spec = raw["spec"]
        pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
        pools.setdefault(pool["name"], []).append({**spec, "pool": pool})
    return {name: sorted(specs, key=json.dumps) for name, specs in pools.items()}


@dataclass(frozen=True, slots=True)
class NodeState:
    """What claims have on a node."""

    files: list[str]
    """CDI specs, metadata files and temporary files."""
    prepared: dict[str, Object]
    """The entries of the checkpoint, by the claims' uids."""
    on_hardware: list[str]
    """Partitions, daemons and modes that exist on the simulated cards."""


_SEPARATOR = "@@@"
_STATE = (
    f"{_FILES}; echo {_SEPARATOR}; cat {PLUGIN}/checkpoint* 2>/dev/null; echo {_SEPARATOR}; cat {_HARDWARE} 2>/dev/null"
)


def node_states(client: Client) -> dict[str, NodeState]:
    """What claims have on each worker. It takes one command on each, because tests ask again and again."""
    return {node: _state(printed) for node, printed in on_workers(client, _STATE).items()}


def _state(printed: str) -> NodeState:
    files, checkpoint, hardware = printed.split(f"{_SEPARATOR}\n")
    existing = json.loads(hardware)["existing"] if hardware.strip() else []
    return NodeState(
        sorted(files.split()),
        dict(json.loads(checkpoint.splitlines()[1])["claims"]) if checkpoint.strip() else {},
        sorted(f"on hardware: {json.dumps(item['action'])}" for item in existing),
    )


def own_files(client: Client) -> dict[str, list[str]]:
    """All files and sockets of the plugin on the workers, but not the state of simulated cards."""
    folders = f"{PLUGIN} /var/lib/kubelet/plugins_registry/lode.dev* /var/run/cdi/lode.dev*"
    found = on_workers(client, f"find {folders} ! -type d ! -path {_HARDWARE} 2>/dev/null")
    return {node: printed.split() for node, printed in found.items() if printed.strip()}


def leftovers(client: Client, uids: Collection[str] | None = None) -> dict[str, list[str]]:
    """What claims have on the workers, the claims ``uids`` or any: files, entries of checkpoints, partitions."""
    found = {
        node: [*state.files, *sorted(state.prepared), *state.on_hardware] for node, state in node_states(client).items()
    }
    selected = {
        node: [item for item in items if uids is None or any(uid in item for uid in uids)]
        for node, items in found.items()
    }
    return {node: items for node, items in selected.items() if items}


def changed_pools(before: Mapping[str, list[Object]], now: Mapping[str, list[Object]]) -> list[str]:
    """The pools whose slices have changed."""
    return sorted(pool for pool in before.keys() | now.keys() if before.get(pool) != now.get(pool))
