"""What must hold once a cluster has come to rest: whatever can run runs, and nothing is kept for nobody."""

from collections.abc import Iterator
from dataclasses import replace

from controller.allocation import Fleet, Unsatisfiable
from driver.kube.api import DEVICE_CLASSES, NODES, RESOURCE_SLICES, Object
from driver.model import Claim
from driver.wire import class_from, slice_from
from kubeletplugin.prepare.storage import ClaimStorage
from simulation.cluster import Cluster
from simulation.invariants import Violation
from simulation.standins.claims import claim_name
from simulation.standins.informed import is_deleting, is_terminal, name_key, phase

Pools = dict[str, tuple[Object, ...]]


def check_rest(cluster: Cluster) -> None:
    """Judge a settled cluster.

    Raises:
        Violation: naming everything that is wrong.
    """
    cluster.invariants.check_quiet()
    faults = [*_ledger(cluster), *_pods(cluster), *_nodes(cluster)]
    if faults:
        raise Violation("\n".join(faults))


def check_end(cluster: Cluster, published: Pools) -> None:
    """Judge a settled cluster whose users have deleted everything; ``published`` is what it published at first.

    Raises:
        Violation: naming everything that was left behind.
    """
    check_rest(cluster)
    faults = [f"pod {'/'.join(name_key(pod))} is left" for pod in cluster.invariants.pods()]
    faults += [f"claim {claim.key} is left" for claim in cluster.invariants.claims()]
    for name, machine in cluster.machines.items():
        storage = ClaimStorage(machine.files, cluster.settings)
        faults += [f"{name}: claim {uid} is left in the checkpoint" for uid in storage.load().claims]
        faults += [f"{name}: file {path} is left" for path in _claim_files(cluster, name)]
        faults += [f"{name}: containers of {c.pod} are left" for c in machine.containers.values()]
    now = cluster.invariants.pools()
    faults += [f"pool {pool} is not published as before" for pool in published if now.get(pool) != published[pool]]
    if faults:
        raise Violation("\n".join(faults))


def rebuilt(cluster: Cluster) -> Fleet:
    """A ledger made from nothing but what the API has now."""
    fleet = Fleet()
    for raw in cluster.memory.list(DEVICE_CLASSES).items:
        fleet.upsert_class(class_from(raw))
    for raw in cluster.memory.list(RESOURCE_SLICES).items:
        fleet.upsert_slice(slice_from(raw))
    for claim in cluster.invariants.claims():
        fleet.upsert_claim(claim)
    return fleet


def _ledger(cluster: Cluster) -> Iterator[str]:
    """The controller believes what the API says."""
    leaders = [program for program in cluster.controllers() if program.leads]
    if len(leaders) != 1:
        yield f"{len(leaders)} controllers lead"
    wanted = rebuilt(cluster).usage_snapshot()
    for leader in leaders:
        if leader.controller.usage_snapshot() != wanted:
            yield f"the leader counts {leader.controller.usage_snapshot()}, the API says {wanted}"


def _pods(cluster: Cluster) -> Iterator[str]:
    fleet = rebuilt(cluster)
    claims = {claim.key: claim for claim in cluster.invariants.claims()}
    nodes = [node for node in cluster.memory.list(NODES).items if not node.get("spec", {}).get("unschedulable")]
    for pod in cluster.invariants.pods():
        namespace, name = name_key(pod)
        if is_deleting(pod):
            yield f"pod {namespace}/{name} is still being deleted"
        elif phase(pod) == "Pending" and not is_terminal(pod):
            entries = pod["spec"].get("resourceClaims") or []
            own = [claims.get(f"{namespace}/{claim_name(pod, entry)}") for entry in entries]
            if pod["spec"].get("nodeName"):
                yield f"pod {namespace}/{name} is bound to {pod['spec']['nodeName']} and does not run"
            elif (where := _feasible(fleet, own, nodes)) and not _selects_nothing(pod, nodes):
                yield f"pod {namespace}/{name} waits, but could run on {where}"


def _feasible(fleet: Fleet, claims: list[Claim | None], nodes: list[Object]) -> str:
    """A node on which all of these claims can be had, those included that are allocated there; "" if none."""
    known = [claim for claim in claims if claim is not None and not claim.deleting]
    if len(known) < len(claims):
        return ""
    rest = [replace(claim) for claim in known if claim.allocation is None]
    held = {claim.allocation.node_name for claim in known if claim.allocation}
    for node in nodes:
        name = node["metadata"]["name"]
        if held <= {name}:
            found = fleet.allocate(name, node["metadata"].get("labels") or {}, rest) if rest else ()
            if not isinstance(found, Unsatisfiable):
                return str(name)
    return ""


def _selects_nothing(pod: Object, nodes: list[Object]) -> bool:
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    return not any(wanted <= (node["metadata"].get("labels") or {}).items() for node in nodes)


def _nodes(cluster: Cluster) -> Iterator[str]:
    """Prepared is what the kubelet's containers use, and every prepared claim has its files."""
    for name, machine in cluster.machines.items():
        storage = ClaimStorage(machine.files, cluster.settings)
        prepared = set(storage.load().claims)
        used = {claim for container in machine.containers.values() for claim, _ in container.devices}
        if prepared != used:
            yield f"{name}: prepared are {sorted(prepared)}, containers use {sorted(used)}"
        if storage.uids() != used:
            yield f"{name}: files are there for {sorted(storage.uids())}, containers use {sorted(used)}"


def _claim_files(cluster: Cluster, node: str) -> list[str]:
    files = cluster.machines[node].files
    paths = ClaimStorage(files, cluster.settings).paths
    return [f"{root}/{name}" for root in (paths.cdi_root, paths.metadata_root) for name in files.names(root)]
