"""What must hold in a settled cluster: every pod that can run runs, and nothing is held without a user.

A pod that is bound while its claims have no devices may wait on its node as long as these are not free there:
kube-scheduler binds a pod from an old copy of a claim whose devices are taken back.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from controller.allocation import Fleet, NodeReasons
from controller.autoscaling import NewNodes, wish_of
from controller.autoscaling.protecting import awaited_nodes
from controller.reconcile import decide
from controller.reconcile.decisions import Wait
from controller.reconcile.history import LAST_RESORT_SECONDS
from controller.refusal import Refusal
from controller.reporting import REMIND_SECONDS, REWORD_SECONDS
from controller.state import State, epoch_seconds
from controller.waiting import rank_of
from driver.kube.api import EVENTS, LEASES, NODES, PODS, RESOURCE_QUOTAS, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, name_key, pod_phase
from driver.model import Claim
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from simulation.invariants import Violation
from simulation.kubernetes.scheduler import REFUSED_ON, filter_reason
from tests.simulation.closed_devices import waits_for_other_users
from tests.simulation.closed_nodes import closing_conditions, closing_violations
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.fleet_checks import fleet_differences
from tests.simulation.node_checks import claim_files, node_violations
from tests.simulation.state_checks import Restarted, differences, other_answers, rebuilt_state
from tests.simulation.template_checks import template_violations
from tests.simulation.write_checks import asks_for_node

Pools = dict[str, tuple[Object, ...]]
QUIET_MINUTE = 60.0
REFUSED_HOUR = 3600.0
MOST_WRITES_IN_AN_HOUR = 80
"""Of one pod that kube-scheduler refuses: four tries, with writes of the controller, kube-scheduler and others."""
_TOLD_IN_AN_HOUR = 2 * 4
"""Writes to each other pod that waits: at each of the tries, what is in use changes twice."""
LONGEST_BOOT_SECONDS = 300.0
"""After this time every program that was killed or stalled runs again, and slices are published again."""
_CALLS_OF_AN_EVENT = 2
"""To say it again: it exists already, and is patched then."""
LONGEST_WAIT_SECONDS = LAST_RESORT_SECONDS + 30.0


def check_settled(cluster: SimulatedCluster) -> None:
    """Check a settled cluster. Time may pass: a pod that some node can take must run in ``LONGEST_WAIT_SECONDS``.

    Raises:
        Violation: lists everything that is wrong.
    """
    cluster.api.check_unchanged()
    cluster.invariants.check_quiet()
    restarted = _restarted(cluster)
    waiting = _waiting_in_vain(cluster, restarted.state)
    _check_nobody_was_forgotten(cluster, waiting)
    if waiting:
        cluster.idle(LONGEST_WAIT_SECONDS)
        cluster.settle()
        restarted = _restarted(cluster)
    still = _waiting_in_vain(cluster, restarted.state) if waiting else {}
    violations = [
        *_state_violations(cluster, restarted),
        *_pod_violations(cluster),
        *_wish_violations(cluster, restarted.state),
        *_protection_violations(cluster, restarted.state),
        *template_violations(cluster),
        *(f"pod {pod} waits, but could run on {node}" for pod, node in still.items() if pod in waiting),
        *node_violations(cluster),
    ]
    if violations:
        raise Violation("\n".join(violations))


def _check_nobody_was_forgotten(cluster: SimulatedCluster, waiting: Mapping[str, str]) -> None:
    """Nobody refuses a pod that has its gate, so it waits for news alone, and never until it is tried again.

    While nodes are held back, a pod may be right to wait although its condition does not say so yet.
    """
    if not waiting or any(controller.held_nodes for controller in cluster.controllers()):
        return
    gated = {"/".join(name_key(pod)) for pod in cluster.invariants.pods() if pod["spec"].get("schedulingGates")}
    # One that waits for a quota is tried again after a while, because it may get other devices by then.
    gated -= {"/".join(name_key(pod)) for pod in cluster.invariants.pods() if "ResourceQuota" in _said(pod)}
    if forgotten := {pod: node for pod, node in waiting.items() if pod in gated}:
        raise Violation(f"pods were not woken, though they could run: {forgotten}")


def _restarted(cluster: SimulatedCluster) -> Restarted:
    return Restarted(cluster.api.sharing(), cluster.settings, cluster.invariants.slices(), cluster.seen())


def check_knowledge(cluster: SimulatedCluster, templates: Collection[str]) -> None:
    """Compare what controllers know with the API's objects at any moment, and their answers for these templates.

    Controllers are left out whose watches lag behind, or that are about to write what they have given to a claim.

    Raises:
        Violation: lists the differences.
    """
    states = [program.controller.state for program in cluster.informed_controllers()]
    idle = [state for state in states if not state.claims.promised]
    if not idle:
        return
    restarted = _restarted(cluster)
    violations = [
        one
        for state in idle
        for one in (*differences(state, restarted.state), *other_answers(state, restarted, templates))
    ]
    if violations:
        raise Violation("\n".join(f"a controller differs from one that starts now: {one}" for one in violations))


def check_nobody_waits_behind_words(cluster: SimulatedCluster) -> None:
    """Let time pass while conditions and Events cannot be written: whatever can run has to run after that.

    A pod that asks autoscalers for a node is not placed before its condition says otherwise, so nothing is known then.

    Raises:
        Violation: names the pods that wait, and where they could run.
    """
    if any(asks_for_node(pod) and pod["spec"].get("schedulingGates") for pod in cluster.invariants.pods()):
        return
    cluster.advance(LONGEST_BOOT_SECONDS)
    waiting = _waiting_in_vain(cluster, rebuilt_state(cluster.seen(), cluster.settings))
    if waiting:
        cluster.idle(LONGEST_WAIT_SECONDS)
        still = _waiting_in_vain(cluster, rebuilt_state(cluster.seen(), cluster.settings))
        if behind := {pod: node for pod, node in still.items() if pod in waiting}:
            raise Violation(f"pods wait while words cannot be written, but could run: {behind}")


def check_no_writes_without_news(cluster: SimulatedCluster) -> None:
    """Let a minute pass in a settled cluster, in which nobody may write anything but Leases.

    Events about what lasts may be said again, in the same words and as rarely as ``REMIND_SECONDS`` says. If nodes are
    held back for a gang, or no longer, that is news: each pod whose reason changes is told once.

    A pod that kube-scheduler refuses everywhere is tried again after five minutes, and then ever more rarely; in a
    cluster with such pods, an hour passes, in which each may cause some writes. Clusters are left out in which pods are
    bound without devices, because kubelets go on trying to start them.

    Raises:
        Violation: names the kinds that were written.
    """
    pods = cluster.invariants.pods()
    if any(_is_pending(pod) and pod["spec"].get("nodeName") for pod in pods):
        return
    refused = sum(REFUSED_ON in (pod["metadata"].get("annotations") or {}) for pod in pods if _is_pending(pod))
    limited = bool(cluster.api.list(RESOURCE_QUOTAS).items)
    if refused:
        # While such a pod is tried, there may be no room for one that waits for a quota otherwise.
        _check_few_writes(cluster, sum(map(_is_pending, pods)) if limited else refused)
        return
    # Other words of a reason that was told are told after a pause.
    # A pod over its quota is tried every five minutes, and may get devices that take less, which is news for others.
    given = -1
    while given < (given := sum(claim.allocation is not None for claim in cluster.invariants.claims())):
        cluster.idle(REWORD_SECONDS)
        if not limited:
            break
    before, events, words = dict(cluster.log.writes), _events(cluster), _words(cluster)
    began = cluster.clock.monotonic()
    cluster.idle(QUIET_MINUTE)
    # Why a pod waits depends on which nodes are held back for others; new words may be told after the pause.
    news = any(one.holds_changed_at >= began - REWORD_SECONDS for one in cluster.controllers())
    again, wrong = _said_again(cluster, events, reworded=news)
    excused = {LEASES: cluster.log.writes[LEASES], EVENTS: before.get(EVENTS, 0) + again * _CALLS_OF_AN_EVENT}
    if news:
        excused[PODS] = before.get(PODS, 0) + sum(said != words.get(uid) for uid, said in _words(cluster).items())
    written = {
        resource.plural: count - before.get(resource, 0)
        for resource, count in cluster.log.writes.items()
        if count > excused.get(resource, before.get(resource, 0))
    }
    if written or wrong:
        raise Violation(f"written although nothing has changed: {written}; said again: {wrong}")


def _words(cluster: SimulatedCluster) -> dict[str, object]:
    """The conditions of each pod that waits, by its uid."""
    return {
        pod["metadata"]["uid"]: pod["status"].get("conditions") for pod in cluster.invariants.pods() if _is_pending(pod)
    }


def _events(cluster: SimulatedCluster) -> dict[str, Object]:
    return {"/".join(name_key(event)): event for event in cluster.api.list(EVENTS, limit=0).items}


def _said_again(cluster: SimulatedCluster, before: Mapping[str, Object], *, reworded: bool) -> tuple[int, list[str]]:
    """How many Events were written since then, and what is wrong with them: each says again why something waits.

    Args:
        reworded: the reason may have changed.
    """
    waiting = {pod["metadata"]["uid"] for pod in cluster.invariants.pods() if _is_pending(pod)}
    waiting |= {claim.uid for claim in cluster.invariants.claims() if claim.allocation is None}
    changed = {name: event for name, event in _events(cluster).items() if event != before.get(name)}
    wrong = []
    for name, event in changed.items():
        known = before.get(name, {})
        again = event["message"] == known.get("message")
        if event["involvedObject"]["uid"] not in waiting or not (again or reworded):
            wrong.append(f"{name}: {event['message']}")
        elif again and not cluster.wall_clocks and _seconds_between(known, event) < REMIND_SECONDS - 1:
            wrong.append(f"{name}: after {_seconds_between(known, event)} s")
    return len(changed), wrong


def _seconds_between(earlier: Object, later: Object) -> float:
    return epoch_seconds(later["lastTimestamp"]) - epoch_seconds(earlier["lastTimestamp"])


def _check_few_writes(cluster: SimulatedCluster, refused: int) -> None:
    before = cluster.log.total_writes
    cluster.idle(REFUSED_HOUR)
    written = cluster.log.total_writes - before
    if written > refused * (MOST_WRITES_IN_AN_HOUR + _TOLD_IN_AN_HOUR * len(_words(cluster))):
        raise Violation(f"{written} writes in an hour, in which nothing but {refused} refused pods was news")


def check_empty(cluster: SimulatedCluster, published: Pools) -> None:
    """Check a settled cluster whose users have deleted everything.

    Args:
        published: ``Invariants.pools`` of the cluster before its first pod.

    Raises:
        Violation: lists everything that is left.
    """
    check_settled(cluster)
    violations = [f"pod {'/'.join(name_key(pod))} is left" for pod in cluster.invariants.pods()]
    violations += [f"claim {claim.key} is left" for claim in cluster.invariants.claims()]
    for name, node in cluster.nodes.items():
        storage = ClaimStorage(node.files, cluster.settings)
        violations += [f"{name}: claim {uid} is left in the checkpoint" for uid in storage.load().claims]
        violations += [f"{name}: file {path} is left" for path in claim_files(cluster, name)]
        violations += [f"{name}: containers of {c.pod} are left" for c in node.containers.values()]
        damaged = [file for file in node.files.names(plugin_directory(cluster.settings)) if ".corrupt-" in file]
        if not node.has_lost_files:
            violations += [f"{name}: the checkpoint was damaged: {file}" for file in damaged]
    now = cluster.invariants.pools()
    violations += [f"pool {pool} is not published as before" for pool in published if now.get(pool) != published[pool]]
    if violations:
        raise Violation("\n".join(violations))


def _state_violations(cluster: SimulatedCluster, restarted: Restarted) -> Iterator[str]:
    """One controller leads, and what every controller knows is what the API's objects say."""
    controllers = cluster.controllers()
    leaders = [program for program in controllers if program.leads]
    if len(leaders) != 1:
        yield f"{len(leaders)} controllers lead, expected 1"
    closes = bool(cluster.settings.controller.closing_node_conditions)
    yield from closing_violations(cluster.api.sharing(), restarted.state, closes=closes)
    for program in controllers:
        state = program.controller.state
        yield from (f"a controller differs: {one}" for one in differences(state, restarted.state))
        yield from (f"a controller answers otherwise: {one}" for one in other_answers(state, restarted))
        yield from (
            f"monitoring is shown otherwise: {one}" for one in fleet_differences(program.controller, restarted.state)
        )


def _pod_violations(cluster: SimulatedCluster) -> Iterator[str]:
    claims = _claims_by_key(cluster)
    for pod in cluster.invariants.pods():
        namespace, name = name_key(pod)
        if is_deleting(pod):
            yield f"pod {namespace}/{name} is still being deleted"
        elif _is_pending(pod) and pod["spec"].get("nodeName") and _has_devices(pod, claims):
            yield f"pod {namespace}/{name} is bound to {pod['spec']['nodeName']} and has devices, but does not run"
        elif pod_phase(pod) == "Running" and _says_that_it_waits(pod):
            yield f"pod {namespace}/{name} runs, but its condition says that it waits: {_said(pod)}"


def _wish_violations(cluster: SimulatedCluster, state: State) -> Iterator[str]:
    """Exactly those pods ask autoscalers for a node that no node takes and a new one would. Members of gangs may.

    Those that may be another driver's are said to be Unschedulable, too.
    """
    new_nodes = _new_nodes(cluster) if cluster.settings.controller.autoscaling.enabled else None
    for pod in state.pods.values():
        if not pod.gates or (new_nodes is not None and state.gangs.gang_of(pod.key)):
            continue
        decision = decide(state, pod.key, cluster.clock.now())
        wish = ""
        if new_nodes is not None and isinstance(decision, Refusal):
            wish = wish_of(state, new_nodes, decision)
        if isinstance(decision, Wait):
            wish = decision.unschedulable
        if pod.wishes_node != bool(wish):
            yield f"pod {pod.key} {'asks' if pod.wishes_node else 'does not ask'} for a node; by {decision}"


def _new_nodes(cluster: SimulatedCluster) -> NewNodes:
    """A new node has none of the conditions that the one has that it is like."""
    section = cluster.settings.controller
    nothing_closes = section.model_copy(update={"closing_node_conditions": []})
    all_open = rebuilt_state(cluster.seen(), cluster.settings.model_copy(update={"controller": nothing_closes}))
    return NewNodes(all_open, unknown_kinds=section.autoscaling.unknown_kinds)


def _protection_violations(cluster: SimulatedCluster, state: State) -> Iterator[str]:
    """Exactly those nodes are kept from autoscalers where unbound pods have a place, and what others say stays."""
    enabled = cluster.settings.controller.autoscaling.enabled
    awaited = awaited_nodes(state, cluster.clock.now()) if enabled else frozenset[str]()
    for node in state.nodes:
        known = state.protections.protection_of(node)
        if known.ours and node not in awaited:
            yield f"node {node} is kept from autoscalers, but waits for nobody"
        if node in awaited and known.value is None:
            yield f"node {node} waits for pods that are not bound, but autoscalers may remove it"


def _is_pending(pod: Object) -> bool:
    return pod_phase(pod) == "Pending" and not is_terminal(pod)


def _claims_by_key(cluster: SimulatedCluster) -> dict[str, Claim]:
    return {claim.key: claim for claim in cluster.invariants.claims()}


def _claims_of(pod: Object, claims: Mapping[str, Claim]) -> list[Claim | None]:
    """The claims of the pod in order; None for one that does not exist."""
    entries = pod["spec"].get("resourceClaims") or []
    return [claims.get(f"{pod['metadata']['namespace']}/{claim_name(pod, entry)}") for entry in entries]


def _has_devices(pod: Object, claims: Mapping[str, Claim]) -> bool:
    return all(claim is not None and claim.allocation is not None for claim in _claims_of(pod, claims))


def _waiting_in_vain(cluster: SimulatedCluster, rebuilt: State) -> dict[str, str]:
    """The pods that wait although a node could take them, each with this node.

    Judged by the simulated kube-scheduler's predicates, and by an allocator that is rebuilt from the API's objects.
    """
    found: dict[str, str] = {}
    claims = _claims_by_key(cluster)
    closes = bool(cluster.settings.controller.closing_node_conditions)
    nodes = [node for node in cluster.api.list(NODES).items if not (closes and closing_conditions(node))]
    pods = cluster.invariants.pods()
    pending = [pod for pod in pods if _is_pending(pod) and not is_deleting(pod)]
    waiting = [pod for pod in pending if not (pod["spec"].get("nodeName") and _has_devices(pod, claims))]
    leading = [program.controller for program in cluster.controllers() if program.leads]
    holding = {held.rank.pod for controller in leading for held in controller.held_nodes}
    holders = [pod for pod in waiting if "/".join(name_key(pod)) in holding]
    domains = [held for controller in leading for held in controller.held_domains]
    for pod in waiting:
        if rebuilt.gangs.gang_of("/".join(name_key(pod))) or "held back for gang" in _said(pod):
            # Whether it waits in vain depends on the other members (``gang_checks``), or on another gang.
            continue
        if not any(_comes_first(rebuilt, other, pod) for other in holders):
            rank = rank_of(rebuilt, rebuilt.pods["/".join(name_key(pod))])
            held = {node for one in domains if one.rank < rank for node in one.nodes}
            possible = [one for one in nodes if one["metadata"]["name"] not in held and _can_be_on(pod, one, pods)]
            own = _claims_of(pod, claims)
            if waits_for_other_users(rebuilt, pod, [claim for claim in own if claim], pods):
                continue
            if (node := _feasible_node(rebuilt.devices, own, possible)) and not _is_limited(rebuilt, own):
                found["/".join(name_key(pod))] = node
    return found


def _is_limited(state: State, claims: list[Claim | None]) -> bool:
    """Whether a quota of the namespace may keep the pod waiting: it does for the devices of some node."""
    new = [claim for claim in claims if claim is not None and claim.allocation is None]
    if not new or not state.quotas.limits(new[0].namespace):
        return False
    given = (state.devices.allocate(name, state.nodes.labels_of(name), new) for name in state.nodes)
    return any(isinstance(one, tuple) and state.quotas.beyond(new[0].namespace, one) is not None for one in given)


def _can_be_on(pod: Object, node: Object, pods: list[Object]) -> bool:
    """Whether the pod is bound to the node, or could be as far as anything but claims is concerned."""
    bound_to = pod["spec"].get("nodeName")
    return node["metadata"]["name"] == bound_to if bound_to else _has_room(pod, node, pods)


def _comes_first(state: State, holder: Object, pod: Object) -> bool:
    """Whether the node that is held back for a pod may be held back from this one: it comes first in the order."""
    first, second = (rank_of(state, state.pods["/".join(name_key(one))]) for one in (holder, pod))
    return first < second


def _said(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return " ".join(condition.get("message") or "" for condition in conditions)


def _says_that_it_waits(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"].endswith("/Allocated") and one["status"] == "False" for one in conditions)


def _feasible_node(fleet: Fleet, claims: list[Claim | None], nodes: list[Object]) -> str:
    """A node on which all of these claims can be allocated or are allocated already; "" if there is none."""
    known = [claim for claim in claims if claim is not None and not claim.deleting]
    if len(known) < len(claims):
        return ""
    unallocated = [replace(claim) for claim in known if claim.allocation is None]
    held = {claim.allocation.node_name for claim in known if claim.allocation}
    for node in nodes:
        name = node["metadata"]["name"]
        if held <= {name}:
            placed = fleet.allocate(name, node["metadata"].get("labels") or {}, unallocated) if unallocated else ()
            if not isinstance(placed, NodeReasons):
                return str(name)
    return ""


def _has_room(pod: Object, node: Object, pods: list[Object]) -> bool:
    """Whether kube-scheduler could bind the pod to the node, as far as anything but claims is concerned.

    As kube-scheduler does, it keeps free what nominated pods need.
    """
    name = node["metadata"]["name"]
    others = [other for other in pods if other["metadata"]["uid"] != pod["metadata"]["uid"]]
    return not filter_reason(pod, node, [other for other in others if _node_of(other) == name])


def _node_of(pod: Object) -> str:
    return pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName") or ""
