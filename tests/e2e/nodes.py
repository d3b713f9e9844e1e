"""What is on the nodes: published slices, prepared claims, and files that claims leave."""

import json

from tests.e2e.client import Client, Object

PLUGIN = "/var/lib/kubelet/plugins/lode.dev"
_FILES = (
    f"find /var/run/cdi {PLUGIN} -type f \\( -name '*.json' -o -name '*.tmp*' \\) ! -name 'checkpoint*' 2>/dev/null"
)


_THAW = """
grep -l FROZEN $(find /sys/fs/cgroup/freezer/kubelet.slice -name freezer.state 2>/dev/null) /dev/null |
while read state; do echo THAWED > $state; done
"""


def thaw(client: Client) -> None:
    """Let processes go on that runc left frozen on a worker.

    runc freezes a version 1 cgroup while it sets it up. Ended just then, because a kubelet or containerd that died took
    its request along, it never thaws it, and the pod cannot go. That is no matter of ours, and cured by hand.
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
    """CDI specs and metadata files of claims on a node."""
    return sorted(client.cluster.node_exec(node, "sh", "-c", _FILES, check=False).stdout.split())


def left(client: Client) -> dict[str, object]:
    """Whatever claims have left on any worker: files, and entries of checkpoints."""
    found = {node: (files(client, node), sorted(prepared(client, node))) for node in client.cluster.workers}
    return {node: it for node, it in found.items() if any(it)}
