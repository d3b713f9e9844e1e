"""What the nodes of a settled cluster offer is what a program would offer that starts now."""

from collections.abc import Iterator, Mapping

from driver.kube.api import NODES
from driver.observe import Metrics
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.inventory import Inventory
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish import PublishingMetrics
from kubeletplugin.publish.cards import CardMonitor
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.pool import PoolBuilder
from kubeletplugin.publish.reports import ErrorReports
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.event_log import EventLog, EventLogger


def offer_violations(cluster: SimulatedCluster, node: str) -> Iterator[str]:
    """The devices that a node offers too many or too few. Nodes with vendors' device plugins are left out."""
    hardware = cluster.hardware[node]
    if not hardware.answers or hardware.bridged is not None:
        return
    wanted = {device.name: device.consumes for device in _offered_at_first(cluster, node).devices}
    pool = cluster.names.pool(node)
    slices = [each for each in cluster.invariants.slices().values() if each.pool == pool]
    offered: Mapping[str, object] = {device.name: device.consumes for each in slices for device in each.devices}
    if missing := sorted(wanted.keys() - offered.keys()):
        yield f"{node}: {missing} are not offered"
    if more := sorted(offered.keys() - wanted.keys()):
        yield f"{node}: {more} are offered, and a program that starts now would not offer them"
    if other := sorted(name for name in wanted.keys() & offered.keys() if wanted[name] != offered[name]):
        yield f"{node}: {other} take something else of their cards than for a program that starts now"


def _offered_at_first(cluster: SimulatedCluster, node: str) -> Inventory:
    cards, log = cluster.hardware[node].cards_of_node, EventLogger(EventLog(cluster.clock), "offers")
    recorded = ClaimStorage(cluster.nodes[node].files, cluster.settings).load().recorded
    monitor = CardMonitor(HardwarePorts(cards, cards), log, lambda _: (), lambda: recorded)
    monitor.refresh()
    metrics = PublishingMetrics(Metrics())
    builder = PoolBuilder(node, cluster.settings, DroppedFields(), metrics, ErrorReports(log))
    return builder.inventory(cluster.api.get(NODES, node), monitor.state, {})
