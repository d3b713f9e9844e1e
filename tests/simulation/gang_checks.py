"""What must hold for gangs in a settled cluster: all or nothing, one domain, and none waits in vain."""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from controller.gangs import Gang, GangPlan, SearchOptions, TriedDomains, choose
from controller.membership import GangTerms
from controller.reconcile import DecisionContext, NodeRestrictions, decide_gang, known_gang
from controller.reconcile.decisions import PlacePod
from controller.reconcile.gangmembers import KnownGang
from controller.refusal import Refusal
from controller.state import State, epoch_seconds
from controller.waiting import rank_of, rank_of_gang
from driver.cache_key import cache_key
from driver.kube.api import JOBS, PODS
from driver.kube.objects import name_key, pod_phase
from driver.kube.reflector import Upserted
from simulation.invariants import Violation
from tests.simulation import gang_search
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.settled_checks import LONGEST_WAIT_SECONDS
from tests.simulation.state_checks import rebuilt_state

ENOUGH_STEPS = 1_000_000
LONGEST_BACK_OFF_SECONDS: Final = 120.0
"""A gang of which a write failed is tried again within this time; others may be served meanwhile."""


def check_gangs(cluster: SimulatedCluster, *, may_have_moved: bool = False) -> None:
    """Check the gangs of a settled cluster. Time may pass: a gang that could start must do so in a bounded time.

    Args:
        may_have_moved: whether later members of a gang may be in another domain, because theirs was gone for a while.

    Raises:
        Violation: lists everything that is wrong.
    """
    state = _state(cluster)
    waiting = set(_waiting_in_vain(cluster, state))
    if waiting:
        cluster.idle(LONGEST_WAIT_SECONDS)
        cluster.settle()
        state = _state(cluster)
        waiting &= set(_waiting_in_vain(cluster, state))
    violations = [f"gang {key} waits, but could start" for key in sorted(waiting)]
    violations += _overtaken(cluster, state)
    for gang in (known_gang(state, key) for key in state.gangs):
        violations += _holding_violations(state, gang)
        if not (may_have_moved and isinstance(gang.terms, GangTerms) and gang.terms.moves):
            violations += _domain_violations(state, gang)
    if violations:
        raise Violation("\n".join(violations))


def _state(cluster: SimulatedCluster) -> State:
    """What a controller that starts now would know, with the members that have succeeded."""
    api = cluster.api.sharing()
    state = rebuilt_state(api, cluster.settings)
    for pod in api.list(PODS).items:
        if pod_phase(pod) == "Succeeded":
            state.apply(state.decode(Upserted(PODS, pod)))
    return state


def _waiting_in_vain(cluster: SimulatedCluster, state: State) -> Iterator[str]:
    """The gangs of which a member would be placed if they were decided now, on nodes that are not held back from them.

    Also those that run: a lost member, a part of a JobSet or a sub-group that comes later.
    """
    leaders = [program.controller for program in cluster.controllers() if program.leads]
    domains = [held for controller in leaders for held in controller.held_domains]
    holders = [pod for one in leaders for held in one.held_nodes if (pod := state.pods.get(held.rank.pod))]
    for key in state.gangs:
        gang = known_gang(state, key)
        pods = [state.pods[member.pod] for member in gang.members]
        rank = rank_of_gang(state, pods)
        if any(rank_of(state, holder) < rank for holder in holders):
            # Which node is held back for a single pod is not known here.
            continue
        before = [held for held in domains if held.gang != key and held.rank < rank]
        restrictions = NodeRestrictions({node: held.gang for held in before for node in held.nodes})
        decision = decide_gang(
            state,
            gang,
            cluster.clock.now(),
            lambda one: _decided(one, state),
            context=DecisionContext(restrictions),
        )
        if any(isinstance(one, PlacePod) for one in decision.members.values()):
            yield key


def _decided(gang: Gang, state: State) -> GangPlan | Refusal[TriedDomains]:
    """The decision, which has to find what trying every node finds."""
    answer = choose(gang, state.cluster, SearchOptions(ENOUGH_STEPS))
    # Of very many sets of values, only some are decided about, and then it is said that nothing is decided.
    refused = isinstance(answer, Refusal) and answer.after is None and not answer.faults and answer.why.decided
    if refused and gang_search.fits(gang, state.cluster):
        raise Violation(f"gang {gang.key} is refused, but fits: {gang.levels}, {gang.constraints}")
    return answer


@dataclass(frozen=True, slots=True)
class _Asking:
    """What all pods of a gang's Job ask."""

    came: float
    """When the last of the pods that exist was created (epoch seconds)."""
    shape: Hashable
    """Claims, needs besides CPU, priority, and the levels and constraints that have to hold."""
    cpu: int
    places: int
    """How many have to start together, or how many are placed."""


def _overtaken(cluster: SimulatedCluster, state: State) -> Iterator[str]:
    """Gangs that wait while one runs that came later, is not smaller, and asks for the same."""
    waiting, running = {}, {}
    for gang in (known_gang(state, key) for key in state.gangs):
        if not isinstance(gang.terms, GangTerms) or any(level.wait_seconds for level in gang.terms.levels):
            continue
        holding = len(_holding(state, gang))
        complete = len(gang.members) + gang.ended >= gang.terms.minimum
        if holding:
            running[gang.key] = _asking(state, gang, gang.terms, holding)
        elif complete and not any(state.pods[member.pod].node_name for member in gang.members):
            waiting[gang.key] = _asking(state, gang, gang.terms, gang.terms.minimum - gang.ended)
    made = {name_key(job): epoch_seconds(job["metadata"]["creationTimestamp"]) for job in cluster.api.list(JOBS).items}
    for key, one in waiting.items():
        for other, late in running.items():
            namespace, _, name = other.partition("/")
            later = made.get((namespace, name), 0.0) > one.came + LONGEST_BACK_OFF_SECONDS
            if later and late.shape == one.shape and late.cpu >= one.cpu and late.places >= one.places:
                yield f"gang {key} waits, but {other}, which came later and is not smaller, runs"


def _asking(state: State, gang: KnownGang, terms: GangTerms, places: int) -> _Asking:
    pods = [state.pods[member.pod] for member in gang.members]
    claims = {
        cache_key(record.claim.spec.requests)
        for pod in pods
        for key in pod.claim_keys
        if (record := state.claims.get(key)) is not None
    }
    needs = {replace(pod.needs, requests={}).shape for pod in pods}
    levels = tuple(level for level in terms.levels if level.required)
    constraints = tuple(constraint for constraint in terms.constraints if constraint.required)
    return _Asking(
        max(epoch_seconds(pod.created) for pod in pods),
        (frozenset(claims), frozenset(needs), frozenset(pod.priority for pod in pods), levels, constraints),
        max(pod.needs.requests.get("cpu", 0) for pod in pods),
        places,
    )


def _holding(state: State, gang: KnownGang) -> dict[str, str]:
    """The members that hold devices of ours, and the node of each."""
    found = {}
    for member in gang.members:
        for key in state.pods[member.pod].claim_keys:
            record = state.claims.get(key)
            if record is not None and record.claim.allocation is not None and state.holds_ours(record.claim):
                found[member.pod] = record.claim.allocation.node_name
    return found


def _holding_violations(state: State, gang: KnownGang) -> Iterator[str]:
    """A gang of which no member runs holds nothing: kube-scheduler has bound or refused all that were let go."""
    holding = _holding(state, gang)
    if holding and not any(state.pods[pod].node_name for pod in holding):
        yield f"gang {gang.key} has devices for {len(holding)} of {len(gang.members)} members, but none is bound"


def _domain_violations(state: State, gang: KnownGang) -> Iterator[str]:
    """What members hold, or those of each group, is in one domain of a required level that is given by a node label."""
    if not isinstance(gang.terms, GangTerms):
        return
    holding, levels = _holding(state, gang), gang.terms.levels
    ranks = {member.pod: member.rank for member in gang.members}
    parts = {member.pod: (member.sub_group, member.task) for member in gang.members}
    places = gang_search.positions(ranks, [member.pod for member in gang.members if member.leader])
    for held in gang_search.required(levels):
        level = levels[held.depth - 1]
        if level.kind != "nodeLabel":
            continue
        groups: dict[gang_search.Group, set[str]] = defaultdict(set)
        for pod, node in holding.items():
            of_pod = held.group(places[pod], *parts[pod])
            if node in state.nodes and of_pod is not None:
                groups[of_pod].add(state.nodes.labels_of(node).get(level.key, ""))
        for (_, group), domains in sorted(groups.items(), key=str):
            if len(domains) > 1:
                yield f"gang {gang.key}, group {group} is in several domains of {level.key}: {sorted(domains)}"
