"""etcd is restored from a backup: whatever was written since then is lost in the API, and goes on in the world.

What must hold then: no two containers ever use one device, what every program knows becomes what the API says, and all
of it settles. Claims that were allocated after the backup are lost while their containers run. Their devices are free
in the API and may be allocated again; the plugin refuses to prepare them until the containers have stopped.
"""

from contextlib import suppress
from typing import Final

from driver.kube.api import NODES, NotFound
from memoryapi.store import Backup
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import FaultProfile, NetworkFaults

BUMP: Final = 1_000_000_000
"""``--bump-revision``, as docs/failures.md says."""
_DOWN: Final = FaultProfile(network=NetworkFaults(lost_request=1.0))


def restore(cluster: SimulatedCluster, backup: Backup, *, bump: int) -> None:
    """Stop the API servers, restore etcd, and start them, as docs/failures.md says.

    That takes longer than a Lease lasts. Kubernetes' own components are started anew, which wait for versions that come
    much later unless they are bumped. Lode's go on.
    """
    faults, cluster.slots.api_is_down = cluster.faults, True
    cluster.faults = _DOWN
    cluster.log.note("operator", "stops the API servers")
    cluster.advance(cluster.settings.controller.lease_seconds)
    cluster.slots.break_watches()
    cluster.late.forget()
    cluster.api.restore(backup, bump)
    cluster.hostile.restore(backup.version)
    cluster.invariants.read_anew()
    for resource in tuple(cluster.log.writes):
        cluster.log.count_write(resource)
    cluster.log.note("operator", f"has restored version {backup.version}, and starts the API servers")
    for name in cluster.slots:
        if not name.startswith(("controller-", "plugin-") if not bump else ("controller-", "plugin-", "kubelet-")):
            cluster.slots.kill(name)
    cluster.slots.api_is_down = False
    cluster.faults = faults
    for node in cluster.nodes:
        # Its kubelet registers it.
        with suppress(NotFound):
            cluster.user.get(NODES, node)
            continue
        cluster.register(node)
