"""Whoever can be served is served: nobody waits in a settled cluster for whom pods of one node could be evicted.

This is asked without the choice of victims: of each node, all go at once that surely may, and it is looked whether the
pod fits then. If so, some of them have to go.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from controller.placement import PodCheck
from controller.state import PodView, State
from driver.kube.api import POD_DISRUPTION_BUDGETS
from driver.label_selectors import label_selector_from
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.state_checks import rebuilt_state

PAUSE_SECONDS = 330.0
"""After this time, a pause after a refusal is over."""


def check_all_are_served(cluster: SimulatedCluster, *, refused: bool) -> None:
    """Check a settled cluster: nobody waits who could have been served.

    Args:
        refused: whether evictions may have been refused by faults. Then it pauses for a while, so time passes.

    Raises:
        Violation: names the pods that wait, and where they could be.
    """
    found = _unserved(cluster)
    if found and refused:
        cluster.idle(PAUSE_SECONDS)
        cluster.settle()
        found = {pod: node for pod, node in _unserved(cluster).items() if pod in found}
    if found:
        raise Violation("\n".join(f"pod {pod} waits, but pods could be evicted on {found[pod]}" for pod in found))


def _unserved(cluster: SimulatedCluster) -> Mapping[str, str]:
    """The pods for which nobody is evicted, each with a node where that would make room."""
    leading = [program.controller for program in cluster.controllers() if program.leads]
    if any(controller.held_nodes or controller.held_domains for controller in leading):
        return {}
    state = rebuilt_state(cluster.seen(), cluster.settings)
    guarded = _guarded(cluster, state)
    # What ends leaves room for somebody already.
    busy = {pod.node_name for pod in state.pods.values() if pod.deleting}
    busy |= {pod.nominated for pod in state.pods.values() if not pod.node_name}
    found: dict[str, str] = {}
    for pod in state.pods.values():
        if not _waits(state, pod):
            continue
        for node in [name for name in state.nodes if name not in busy]:
            with _without(state, _lower(state, pod, node, guarded)):
                if _fits(state, pod, node):
                    found[pod.key] = node
    return found


def _waits(state: State, pod: PodView) -> bool:
    """Whether the pod waits for devices at our gate, alone, and may have others evicted."""
    if pod.deleting or pod.node_name or pod.nominated or state.gangs.gang_of(pod.key) or not pod.needs.preempts:
        return False
    records = [state.claims.get(key) for key in pod.claim_keys]
    return pod.gates == (state.names.gate,) and all(one is not None and one.claim.allocation is None for one in records)


def _guarded(cluster: SimulatedCluster, state: State) -> Collection[str]:
    """The pods that a budget or a webhook keeps, that no eviction ends, or that do not free their claims."""
    selectors = [
        (budget["metadata"]["namespace"], label_selector_from(budget["spec"].get("selector")))
        for budget in cluster.api.list(POD_DISRUPTION_BUDGETS).items
    ]
    budgeted = {
        pod.key
        for pod in state.pods.values()
        for namespace, selector in selectors
        if namespace == pod.namespace and selector is not None and selector.selects(dict(pod.needs.pod.labels))
    }
    webhooks = cluster.evictions.webhooks
    kept = {pod.key for pod in state.pods.values() if pod.is_static or webhooks.of(pod.key.partition("/")[2])}
    grouped = {
        user
        for record in state.claims.values()
        if any(consumer.resource != "pods" for consumer in record.claim.reserved_for)
        for user in state.pods.using(record.claim.key)
    }
    return budgeted | kept | grouped


def _lower(state: State, pod: PodView, node: str, guarded: Collection[str]) -> list[PodView]:
    """The pods on the node that surely may go for this one."""
    there = [one for one in state.pods.values() if one.node_name == node and one.priority < pod.priority]
    return [one for one in there if one.key not in guarded and not state.gangs.gang_of(one.key) and _ends_soon(one)]


def _ends_soon(pod: PodView) -> bool:
    return pod.grace_seconds <= 600


@contextmanager
def _without(state: State, pods: Collection[PodView]) -> Iterator[None]:
    """The state as if these pods and their claims were gone."""
    records = [state.claims.get(key) for pod in pods for key in pod.claim_keys]
    claims = [record.claim for record in records if record is not None]
    for claim in claims:
        state.devices.ledger.remove_claim(claim.uid)
    for pod in pods:
        state.nodes.discount(pod.key)
    try:
        yield
    finally:
        for pod in pods:
            state.nodes.count(pod.key, pod.needs, pod.node_name)
        for claim in claims:
            state.devices.ledger.upsert_claim(claim)


def _fits(state: State, pod: PodView, node: str) -> bool:
    if not PodCheck(pod.key, pod.needs, state.nodes).passes(node):
        return False
    claims = [state.claims[key].claim for key in pod.claim_keys]
    return isinstance(state.devices.allocate(node, state.nodes.labels_of(node), claims), tuple)
