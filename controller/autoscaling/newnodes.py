"""Finds whether a new node would take a pod that no node of today takes, so that an autoscaler may make one. Pure.

A **wish** is the message by which a gated pod tells autoscalers so. It is only for pods that devices or other resources
of a node are lacking: an autoscaler that makes a node for another cause makes the next one, too, and so on.

The kinds of nodes are those of today: a copy of each, with nothing in use and no pods, is asked with the planner. Their
taints, labels and conditions of the moment are left out. A kind that has no node now is not known here, only to the
autoscaler. So a claim that asks for devices of which the cluster has none, in use or not, counts as one that such a
kind could serve, if the operator wants that. As soon as there is a node with such devices, its kind is known and
decides: a pod that it does not help stops asking.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.allocation import Fleet
from controller.membership import GangTerms
from controller.placement import NodeFacts, Nodes, NodeTaint, Placement, PodDemand, find_place
from controller.reconcile.decisions import GangDecision, Idle, PodRefusal, Wait
from controller.reconcile.demand import quota_wait
from controller.reconcile.gangmembers import KnownGang
from controller.reconcile.podclaims import as_decided
from controller.reconcile.prospects import could_take
from controller.state import ClaimRecord, PodView, State
from driver.bounded import BoundedCache
from driver.limits import bounded, listed
from driver.model import Allocation, Claim, Want

_MOST_SHAPES: Final = 1024
"""Most shapes of pods for which the answer is remembered."""
MOST_KINDS: Final = 64
"""Most kinds of nodes that are asked, in the order of the names of their first nodes."""
_OF_THE_MOMENT: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Beginnings of the keys of taints that a node has for a while."""
_OF_ONE_DEVICE: Final = frozenset({"uuid", "pciBusID", "pcieRoot", "serial"})
"""Attributes, without their domain, whose values tell devices of one kind apart."""


@dataclass(frozen=True, slots=True)
class NodeKinds:
    """One empty node of each kind that the cluster has.

    Attributes:
        fleet: its devices.
        nodes: its node, under a name that no node can have.
        like: by this name, the node of today that it is a copy of.
    """

    fleet: Fleet
    nodes: Nodes
    like: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Helper:
    """A new node that would take a pod."""

    like: str
    """The node of today that it is like; "" if its kind is not known."""
    allocations: Sequence[Allocation]
    """What the pod's claims would get there, by the names of devices on the node of today; none if that is not known.

    Copies of pools have the names of the pools, so a quota can tell what these devices count.
    """


def kinds_of(state: State) -> NodeKinds:
    """Return the kinds of nodes of today."""
    found: dict[Hashable, str] = {}
    for name in state.nodes:
        if len(found) < MOST_KINDS and (facts := state.nodes[name].facts) is not None and not facts.deleting:
            found.setdefault((_described(facts), _hardware(state, name)), name)
    like = {f"a copy of {name}": name for name in found.values()}
    kinds = NodeKinds(Fleet(names=state.names), Nodes(), like)
    for record in state.classes.values():
        kinds.fleet.upsert_class(record.value)
    state.devices.ledger.copy_nodes(kinds.fleet.ledger, {name: copy for copy, name in like.items()})
    kinds.nodes.extended_resources = state.nodes.extended_resources
    kinds.nodes.storage = state.nodes.storage
    for copy, name in like.items():
        if (facts := state.nodes[name].facts) is not None:
            new = replace(
                facts,
                name=copy,
                ready=True,
                unschedulable=False,
                labels=_labels(facts),
                taints=_taints(facts),
                closing_conditions=(),
            )
            kinds.nodes.upsert(new)
            kinds.fleet.ledger.upsert_node(copy, new.labels)
    return kinds


def _described(facts: NodeFacts) -> Hashable:
    return (
        frozenset(_labels(facts).items()),
        _taints(facts),
        frozenset(facts.allocatable.items()),
        facts.features,
    )


def _labels(facts: NodeFacts) -> Mapping[str, str]:
    """Return the labels without those that name the node."""
    return {label: value for label, value in facts.labels.items() if value != facts.name}


def _taints(facts: NodeFacts) -> tuple[NodeTaint, ...]:
    return tuple(taint for taint in facts.taints if not taint.key.startswith(_OF_THE_MOMENT))


def _hardware(state: State, node: str) -> Hashable:
    """Return a value that is equal for nodes with like hardware: the first device of each pool stands for the pool."""
    slot = state.devices.node_slots.get(node)
    return frozenset(
        (driver, pool.layout, frozenset(_traits(pool.devices[0].spec.attributes) if pool.devices else ()))
        for (driver, _), pool in (slot.pools.items() if slot else ())
    )


def _traits(attributes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return (item for item in attributes.items() if item[0].rpartition("/")[2] not in _OF_ONE_DEVICE)


class NewNodes:
    """The new nodes that would take pods, as of the nodes and pools of one moment. Pods that are alike are asked once.

    Args:
        unknown_kinds: whether a kind of which there is no node may have devices of which there is none.
    """

    def __init__(self, state: State, *, unknown_kinds: bool):
        self._state = state
        self._kinds = kinds_of(state)
        self._unknown_kinds = unknown_kinds
        self._found: BoundedCache[Hashable, _Helper | None] = BoundedCache(_MOST_SHAPES)

    def node_for(self, pod: PodView, records: Sequence[ClaimRecord]) -> _Helper | None:
        """Return the new node that would take the pod with these claims; None if there is none."""
        shape = self._kinds.nodes.shape_of(pod.needs), _specs(records)
        if shape not in self._found:
            self._found[shape] = self._find(pod, tuple(record.claim for record in records))
        return self._found[shape]

    def _find(self, pod: PodView, claims: tuple[Claim, ...]) -> _Helper | None:
        answer = find_place(PodDemand(pod.key, pod.needs, claims), self._kinds.fleet, self._kinds.nodes)
        if isinstance(answer, Placement):
            return _Helper(self._kinds.like[answer.node], answer.allocations)
        published = all(self._state.devices.publishes(claim) for claim in claims)
        return _Helper("", ()) if self._unknown_kinds and not answer.faults and not published else None


class NodeWishes:
    """The wishes of pods, by the new nodes that there could be now.

    What a new node would take is found anew when a node or a pool has changed, or what holds for all nodes, such as a
    class.

    Args:
        enabled: whether pods may ask for nodes at all.
        unknown_kinds: as of ``NewNodes``.
    """

    def __init__(self, state: State, *, enabled: bool, unknown_kinds: bool):
        self._state = state
        self._unknown_kinds = unknown_kinds
        self._new_nodes: tuple[Hashable, NewNodes] | None = None
        self.enabled = enabled

    def wish(self, answer: PodRefusal, held: Callable[[], Mapping[str, str]]) -> str:
        """Return the wish of a pod for which this was decided; "" if it has none.

        Args:
            held: returns the nodes that are held back from the pod now, which the answer may not know.
        """
        if not self.enabled:
            return ""
        return wish_of(
            self._state, self._known(), replace(answer, why=replace(answer.why, held={**answer.why.held, **held()}))
        )

    def wishes_of_gang(
        self, gang: KnownGang, decision: GangDecision, fits_unheld: Callable[[], bool]
    ) -> Mapping[str, str]:
        """Return the wishes of the members of a gang for which this was decided, by pod.

        Args:
            fits_unheld: returns whether the gang would have its places if no nodes were held back.
        """
        if not self.enabled:
            return {}
        return _wishes_of_gang(self._state, self._known(), gang, decision, fits_unheld)

    @property
    def version(self) -> object:
        """A version that changes whenever another pod may ask for a node because of others than itself."""
        quotas = self._state.quotas
        return self._kinds_version, [quotas.uses(namespace) for namespace in quotas.namespaces]

    @property
    def _kinds_version(self) -> Hashable:
        nodes = self._state.nodes
        return nodes.described, nodes.common_version, self._state.devices.published

    def _known(self) -> NewNodes:
        version = self._kinds_version
        if self._new_nodes is None or self._new_nodes[0] != version:
            self._new_nodes = version, NewNodes(self._state, unknown_kinds=self._unknown_kinds)
        return self._new_nodes[1]


def wish_of(state: State, new_nodes: NewNodes, answer: PodRefusal) -> str:
    """Return the wish of a pod for which this was decided; "" if it has none."""
    pod, records = state.pods.get(answer.subject), _claims(state, answer.why.claims)
    if pod is None or records is None or not _may_wish(state, pod) or _waits_for_others(state, answer):
        return ""
    found = new_nodes.node_for(pod, as_decided(state, pod, records))
    if found is None or quota_wait(state, pod.namespace, found.allocations):
        return ""
    return _message(found.like, records)


def _wishes_of_gang(
    state: State, new_nodes: NewNodes, gang: KnownGang, decision: GangDecision, fits_unheld: Callable[[], bool]
) -> Mapping[str, str]:
    """Return the wishes of the members of a gang that could not start, by pod: those of all that wait, or none.

    A gang that has started gets none: a further member may need a place in its domain, and a new node may be elsewhere.
    Nor does one that would fit if domains did not matter, because an autoscaler would find these places and make no
    node.

    Args:
        fits_unheld: returns whether the gang would have its places if no nodes were held back. A hold begins and ends
            every minute or so, and what the gang asks for must not follow it.
    """
    if decision.plan is not None or decision.started or not decision.decided or not decision.lacking:
        return {}
    waiting = [key for key, one in decision.members.items() if not isinstance(one, Idle)]
    if not all(isinstance(decision.members[key], Wait) and _may_wish(state, state.pods[key]) for key in waiting):
        return {}
    wishes: dict[str, None] = {}
    devices: dict[Hashable, Sequence[Allocation]] = {}
    for answer in decision.lacking:
        pod, records = state.pods.get(answer.subject), _claims(state, answer.why.claims)
        if pod is None or records is None:
            return {}
        found = new_nodes.node_for(pod, as_decided(state, pod, records))
        if found is None:
            return {}
        wishes[_message(found.like, records)] = None
        devices[_specs(records)] = found.allocations
    claims = {key: state.pods[key].claim_keys for key in waiting}
    claims |= {one.subject: one.why.claims for one in decision.lacking}
    together = isinstance(gang.terms, GangTerms) and (gang.terms.levels or gang.terms.constraints)
    if together and _fits_anywhere(state, claims):
        return {}
    given = [one for key in waiting for one in devices.get(_specs(_unallocated(state, key)), ())]
    if quota_wait(state, gang.key.partition("/")[0], given):
        return {}
    # This is a search like that of the decision, so it comes last.
    if any(answer.why.held for answer in decision.lacking) and fits_unheld():
        return {}
    text = listed(list(wishes))
    return {key: bounded(f"gang {gang.key}: {text}") for key in waiting}


def _unallocated(state: State, pod: str) -> Sequence[ClaimRecord]:
    return _claims(state, state.pods[pod].claim_keys) or ()


def _specs(records: Iterable[ClaimRecord]) -> Hashable:
    return tuple(record.shape for record in records)


def _may_wish(state: State, pod: PodView) -> bool:
    """Return whether the pod waits at our gate alone, and holds nothing."""
    if pod.gates != (state.names.gate,) or pod.deleting or pod.terminal or pod.node_name:
        return False
    records = (state.claims.get(key) for key in pod.claim_keys)
    return all(record is not None and record.claim.allocation is None for record in records)


def _waits_for_others(state: State, answer: PodRefusal) -> bool:
    """Return whether the pod may wait only because nodes are held back for others.

    A member of a gang of which some are made later may lack a node for these. If no node takes the member itself, no
    hold keeps it from one.
    """
    question, asked = answer.why, {answer.subject: answer.why.claims}
    if question.lenient and question.held:
        return _fits_anywhere(state, asked)
    able = [node for node in question.held if could_take(state, answer, node)]
    # Where others would have to be evicted, kube-scheduler does not do it as long as another node has room.
    return bool(able) and _fits_anywhere(state, asked, able)


def _claims(state: State, keys: Iterable[str]) -> Sequence[ClaimRecord] | None:
    found = [state.claims.get(key) for key in keys]
    records = [record for record in found if record is not None]
    return records if len(records) == len(found) else None


def _fits_anywhere(state: State, pods: Mapping[str, Iterable[str]], among: Collection[str] | None = None) -> bool:
    """Return whether the nodes of today take all these pods, wherever.

    Args:
        pods: each with those of its claims that need devices.
        among: the only nodes that may be chosen; None for any.
    """
    given: set[str] = set()
    with state.cluster.what_if() as trial:
        for key, claims in pods.items():
            records = _claims(state, [claim for claim in claims if claim not in given]) or ()
            records = as_decided(state, state.pods[key], records)
            given.update(claims)
            demand = PodDemand(key, state.pods[key].needs, tuple(record.claim for record in records), among)
            if not isinstance(trial.schedule(demand), Placement):
                return False
        return True


def _message(like: str, records: Iterable[ClaimRecord]) -> str:
    needs = listed([text for record in records for text in _needs(record.claim)])
    asks = f" with {needs}" if needs else ""
    if like:
        return bounded(f"no node takes the pod now, and a new node like {like} would: the pod waits for one{asks}")
    return bounded(f"no node of the cluster has such devices: the pod waits for a new node{asks}")


def _needs(claim: Claim) -> Iterator[str]:
    for request in claim.spec.requests:
        wants = " or ".join(_want(want) for want in request.wants)
        yield f"{wants} (ResourceClaim {claim.key})"


def _want(want: Want) -> str:
    count = "all" if want.mode == "All" else str(want.count)
    amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(want.capacity.items()))
    return f"{count} of {want.device_class}{f' with {amounts}' if amounts else ''}"
