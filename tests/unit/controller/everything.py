"""All that a cluster knows, with every version by which an earlier answer is told to be still right."""

from controller.cluster import Cluster
from controller.placement.podindex import NodeCounts, PodIndex


def everything(cluster: Cluster) -> dict[str, object]:
    """State and versions of a cluster: equal before a question and after it."""
    devices, nodes, quotas = cluster.devices, cluster.nodes, cluster.quotas
    return {
        "devices": (devices.ledger.usage_snapshot(), devices.ledger.free_counters()),
        "versions of devices": (devices.published, devices.shared_usage),
        "clocks": {name: (slot.clock, slot.made) for name, slot in devices.node_slots.items()},
        "pods": {name: (dict(view.held()), +view.used, +view.ports) for name, view in nodes._views.items()},
        "volumes": {name: sorted(view.volume_claims("")) for name, view in nodes._views.items()},
        "versions of nodes": {name: nodes.version_of(name) for name in (*nodes._views, "unknown")},
        "generations": (nodes.generation, nodes.topology, nodes.described, nodes.common_version),
        "places": (nodes.placements(), nodes.order, nodes.on_trial),
        "index of pods": _index(nodes.pods),
        "quotas": {one: (quotas.uses(one), dict(quotas._kept.get(one, {}))) for one in (*quotas.namespaces, "ns")},
    }


def _index(pods: PodIndex) -> object:
    def counted(some: NodeCounts) -> object:
        return dict(some.by_node), some.changed

    return (
        {namespace: {pod: dict(nodes) for pod, nodes in alike.items()} for namespace, alike in pods._pods.items()},
        {term: counted(nodes) for term, nodes in pods._terms.items() if nodes.by_node},
        {claim: counted(nodes) for claim, nodes in pods._users.items() if nodes.by_node},
        [term for terms in pods._by_label.values() for term in terms if pods._terms[term].by_node],
        +pods._priorities,
    )
