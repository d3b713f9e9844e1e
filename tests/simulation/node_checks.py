"""What must hold for the nodes of a settled cluster: what is prepared there, its files, and what is said about it."""

from collections.abc import Collection, Iterator

from driver.kube.api import NODES, RESOURCE_CLAIMS
from driver.kube.objects import name_key
from kubeletplugin.prepare.storage import ClaimStorage
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.device_plugin_checks import answer_violations
from tests.simulation.device_status_checks import device_status_problems
from tests.simulation.hardware_checks import hardware_violations
from tests.simulation.offer_checks import offer_violations


def node_violations(cluster: SimulatedCluster) -> Iterator[str]:
    """Exactly the claims that containers use are prepared, every prepared claim has its files, and what is published
    follows the node's labels.
    """
    for name, node in cluster.nodes.items():
        if cluster.hardware[name].answers:
            yield from _publishing_violations(cluster, name)
            yield from offer_violations(cluster, name)
        storage = ClaimStorage(node.files, cluster.settings)
        claims = storage.load().claims.values()
        prepared = {claim.plan.ref.uid for claim in claims if claim.state != "stopping"}
        used = {claim for container in node.containers.values() for claim, _ in container.devices}
        if prepared != used:
            yield f"{name}: claims {sorted(prepared)} are prepared, containers use {sorted(used)}"
        if storage.uids() != used:
            yield f"{name}: claims {sorted(storage.uids())} have files, containers use {sorted(used)}"
        stopping = [claim for claim in claims if claim.state == "stopping"]
        yield from _device_status_violations(cluster, name, used)
        yield from hardware_violations(cluster.hardware[name], node, stopping)
        if cluster.hardware[name].bridged is not None:
            yield from answer_violations(node, cluster.settings, claims)


def _device_status_violations(cluster: SimulatedCluster, node: str, used: Collection[str]) -> Iterator[str]:
    """The claims that containers use say which cards they have. Where controllers do not write it, the plugin does that
    has prepared the claim, unless it was ended before.
    """
    plugin = cluster.plugin(node)
    known = plugin.prepared if plugin else set()
    for claim in cluster.api.list(RESOURCE_CLAIMS).items:
        uid = claim["metadata"]["uid"]
        if uid in used and claim["status"].get("allocation") and (uid in known or not cluster.older_controllers):
            problems = device_status_problems(claim, cluster.names.driver)
            yield from (f"claim {'/'.join(name_key(claim))} on {node}: {problem}" for problem in problems)


def _publishing_violations(cluster: SimulatedCluster, node: str) -> Iterator[str]:
    label = cluster.settings.kubeletplugin.node_labels.ib_cluster
    fabric = (cluster.api.get(NODES, node)["metadata"].get("labels") or {}).get(label, "")
    for spec in cluster.invariants.pools().get(cluster.names.pool(node), ()):
        for device in spec.get("devices") or []:
            published = device["attributes"].get("ibCluster", {}).get("string", "")
            if published != fabric:
                yield f"{node}: {device['name']} is published with fabric {published!r}, the node has {fabric!r}"


def claim_files(cluster: SimulatedCluster, node: str) -> list[str]:
    """The paths of the CDI specs and metadata files on a node."""
    files = cluster.nodes[node].files
    paths = ClaimStorage(files, cluster.settings).paths
    return [f"{root}/{name}" for root in (paths.cdi_root, paths.metadata_root) for name in files.names(root)]
