"""What is on the nodes: published slices, prepared claims, and files that claims leave."""

import json
from collections.abc import Collection, Mapping

from tests.e2e.client import Client, Object

PLUGIN = "/var/lib/kubelet/plugins/lode.dev"
_FILES = f"find /var/run/cdi {PLUGIN} -type f \\( -name '*.json' -o -name '*.tmp' \\) ! -name 'checkpoint*' 2>/dev/null"


_THAW = """
for state in $(grep -ls FROZEN $(find /sys/fs/cgroup/freezer/kubelet* -name freezer.state 2>/dev/null) /dev/null)
do echo THAWED > $state; done
for state in $(grep -lsx 1 $(find /sys/fs/cgroup/kubelet* -name cgroup.freeze 2>/dev/null) /dev/null)
do echo 0 > $state; done
"""


def thaw(client: Client) -> None:
    """Let processes go on that runc left frozen on a worker, whichever version and driver of cgroups it has.

    runc freezes a container while it sets its cgroup up. Ended just then it never thaws it, and the pod can neither
    start nor go. It is ended along with a containerd that died, but also by a call that a kubelet withdraws, be it that
    it died or that the pod was deleted while it started: at any time, so this is called again and again while pods are
    waited for. It is no matter of ours, and cured by hand.
    """
    for node in client.cluster.workers:
        client.cluster.node_exec(node, "sh", "-c", _THAW, check=False)


def published(client: Client) -> dict[str, list[Object]]:
    """What our slices say, by pool and without generations, which only ever grow."""
    pools: dict[str, list[Object]] = {}
    for raw in client.list("resourceslices", "", "--field-selector=spec.driver=lode.dev"):
        spec = raw["spec"]
        pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
        pools.setdefault(pool["name"], []).append({**spec, "pool": pool})
    return {name: sorted(specs, key=json.dumps) for name, specs in pools.items()}


def prepared(client: Client, node: str) -> dict[str, Object]:
    """The claims in a node's checkpoint, by uid."""
    text = client.cluster.node_exec(node, "sh", "-c", f"cat {PLUGIN}/checkpoint* 2>/dev/null || true").stdout
    return dict(json.loads(text.splitlines()[1])["claims"]) if text else {}


def files(client: Client, node: str) -> list[str]:
    """CDI specs and metadata files of claims on a node, and unfinished ones."""
    return sorted(client.cluster.node_exec(node, "sh", "-c", _FILES, check=False).stdout.split())


def left(client: Client, uids: Collection[str] | None = None) -> dict[str, list[str]]:
    """What claims have left on the workers, files and entries of checkpoints: these claims, or any."""
    found = {node: [*files(client, node), *sorted(prepared(client, node))] for node in client.cluster.workers}
    asked = {
        node: [it for it in those if uids is None or any(uid in it for uid in uids)] for node, those in found.items()
    }
    return {node: those for node, those in asked.items() if those}


def changed(before: Mapping[str, list[Object]], now: Mapping[str, list[Object]]) -> list[str]:
    """The pools whose slices are not what they were."""
    return sorted(pool for pool in before.keys() | now.keys() if before.get(pool) != now.get(pool))
