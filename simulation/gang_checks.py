"""What must hold for gangs in a settled cluster: all or nothing, one domain, and none waits in vain."""

from collections.abc import Iterator

from controller.gangs import GangTerms, choose
from controller.reconcile import KnownGang, Place, decide_gang, known_gang
from controller.state import State
from driver.kube.api import PODS
from driver.kube.objects import pod_phase
from driver.kube.reflector import Upserted
from simulation.cluster import Cluster
from simulation.invariants import Violation
from simulation.settled_checks import LONGEST_WAIT_SECONDS
from simulation.state_checks import rebuilt_state

ENOUGH_STEPS = 1_000_000


def check_gangs(cluster: Cluster) -> None:
    """Check the gangs of a settled cluster. Time may pass: a gang that could start must do so in a bounded time.

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
    for gang in (known_gang(state, key) for key in state.gangs):
        violations += _holding_violations(state, gang)
        violations += _domain_violations(state, gang)
    if violations:
        raise Violation("\n".join(violations))


def _state(cluster: Cluster) -> State:
    """What a controller that starts now would know, with the members that have succeeded."""
    api = cluster.api.sharing()
    state = rebuilt_state(api, cluster.names)
    for pod in api.list(PODS).items:
        if pod_phase(pod) == "Succeeded":
            state.apply(state.decode(Upserted(PODS, pod)))
    return state


def _waiting_in_vain(cluster: Cluster, state: State) -> Iterator[str]:
    """The gangs that have not started, and would if they were decided now."""
    for key in state.gangs:
        gang = known_gang(state, key)
        if not any(state.pods[member.pod].node_name for member in gang.members):
            decision = decide_gang(
                state, gang, cluster.clock.now(), lambda one: choose(one, state.devices, state.nodes, ENOUGH_STEPS)
            )
            if any(isinstance(one, Place) for one in decision.members.values()):
                yield key


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
    """What members hold is in one domain of each required level that is given by a node label."""
    if not isinstance(gang.terms, GangTerms):
        return
    for level in gang.terms.levels:
        if level.required and level.kind == "nodeLabel" and not level.group_size:
            nodes = set(_holding(state, gang).values())
            domains = {dict(state.nodes.labels_of(node)).get(level.key, "") for node in nodes if node in state.nodes}
            if len(domains) > 1:
                yield f"gang {gang.key} is in several domains of {level.key}: {sorted(domains)}"
