"""Nodes as the predicates see them: the fields of each Node object, and sums over its pods, updated pod by pod."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from controller.placement.needs import Amounts, HostPort, Needs
from controller.placement.podindex import PodIndex
from controller.placement.storage import Storage
from driver.bounded import BoundedCache
from driver.model import NodeSelector
from driver.node_selectors import selects
from driver.quantity import Quantity
from driver.wire import Json
from driver.wire.fields import text, text_map, texts


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A node taint (core/v1 Taint)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


BY_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""With what the extended resource begins that stands for the device class whose name follows."""


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """Extended resources that stand for device classes, besides those that begin with ``BY_CLASS``.

    Attributes:
        by_scheduler: kube-scheduler makes a claim for who asks for one, and allocates it. A node need not have them.
        by_claim: this controller allocates the devices, and kube-scheduler cannot; also those with ``BY_CLASS``.
    """

    by_scheduler: frozenset[str] = frozenset()
    by_claim: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The fields of a Node object that predicates read."""

    name: str
    ready: bool = False
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    allocatable: Amounts = field(default_factory=dict)
    deleting: bool = False
    features: frozenset[str] = frozenset()
    """``status.declaredFeatures``."""
    closing_conditions: tuple[str, ...] = ()
    """Types of its conditions that keep pods from it, sorted."""


def facts_of(node: Json, closing: Collection[str] = ()) -> NodeFacts:
    """The facts of a Node object. A node without the condition ``Ready`` is not ready.

    Args:
        closing: patterns of the types of conditions that keep pods from a node while their status is ``True``.

    Raises:
        TypeError: a label, a taint or a feature is no text.
    """
    spec, status, metadata = node.get("spec") or {}, node.get("status") or {}, node["metadata"]
    return NodeFacts(
        name=text(metadata["name"]),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        labels=text_map(metadata.get("labels")),
        taints=tuple(
            NodeTaint(text(t["key"]), text(t.get("value")), text(t["effect"])) for t in spec.get("taints") or ()
        ),
        allocatable={name: Quantity.parse(str(v)).nanos for name, v in (status.get("allocatable") or {}).items()},
        deleting=bool(metadata.get("deletionTimestamp")),
        features=frozenset(texts(status.get("declaredFeatures"))),
        closing_conditions=_closing(status.get("conditions") or (), closing) if closing else (),
    )


def _closing(conditions: Iterable[Json], closing: Collection[str]) -> tuple[str, ...]:
    held = (text(one["type"]) for one in conditions if one["status"] == "True")
    return tuple(sorted(kind for kind in held if any(fnmatchcase(kind, pattern) for pattern in closing)))


Reasons = Callable[[str, Mapping[str, str]], Iterable[str]]
"""Finds the reasons why a node, by its name and labels, does not take a certain pod; empty if it does."""


class PodChange(NamedTuple):
    """A change on trial: a pod counts on a node, or does not any more.

    Attributes:
        pod: a key that no other pod on the node has.
        needs: its needs as they count.
        ends: whether it stops counting.
    """

    pod: str
    node: str
    needs: Needs
    ends: bool = False


_MAX_DOMAINS = 64
"""Most kinds of topology spread with remembered nodes."""
HOSTNAME: Final = "kubernetes.io/hostname"
"""Well-known label with the host name, by which pods can name a node."""


class NodeView:
    """A node, and the sums of resources, ports and volumes of the pods that count on it.

    A pod counts once its claims are allocated on the node, before kube-scheduler binds it. So no second pod is sent to
    the same CPU meanwhile.
    """

    __slots__ = ("_held", "_volume_claims", "facts", "name", "ports", "used", "version")

    def __init__(self, name: str):
        self.name = name
        self.facts: NodeFacts | None = None
        """None if the node does not exist, and only pods name it."""
        self.used: Counter[str] = Counter()
        self.ports: Counter[HostPort] = Counter()
        self._volume_claims: Counter[str] = Counter()
        self.version = 0
        """Kept by ``Nodes``: another number after every change that can change an answer for the node."""
        self._held: dict[str, Needs] = {}

    @classmethod
    def without_pods(cls, facts: NodeFacts) -> "NodeView":
        """The view of a node as if no pod was there."""
        view = cls(facts.name)
        view.facts = facts
        return view

    @property
    def pods(self) -> int:
        """Number of pods that count."""
        return len(self._held)

    def held(self) -> Iterable[tuple[str, Needs]]:
        """Keys (namespace/name) and needs of the pods that count."""
        return self._held.items()

    def holds(self, pod: str) -> Needs | None:
        """The needs of ``pod`` (namespace/name) as they count here; None if it does not count."""
        return self._held.get(pod)

    def volume_claims(self, pod: str) -> Iterable[str]:
        """Keys of the PersistentVolumeClaims that pods other than ``pod`` use here."""
        own = self._held.get(pod)
        return (self._volume_claims - Counter(use.claim for use in own.volumes) if own else self._volume_claims).keys()

    def add(self, pod: str, needs: Needs) -> None:
        """Count the pod, which does not count here yet."""
        self._held[pod] = needs
        self.used.update(needs.requests)
        self.ports.update(needs.ports)
        self._volume_claims.update(use.claim for use in needs.volumes)

    def remove(self, pod: str) -> Needs:
        """Stop counting the pod. Returns its needs as they counted."""
        needs = self._held.pop(pod)
        self.used.subtract(needs.requests)
        self.ports.subtract(needs.ports)
        self.ports = +self.ports
        if needs.volumes:
            self._volume_claims.subtract(use.claim for use in needs.volumes)
            self._volume_claims = +self._volume_claims
        return needs


class Nodes(Mapping[str, NodeView]):
    """The nodes of the cluster by name, and the pods that count on each.

    The mapping has the nodes that exist, in the order in which they are tried. ``view`` also knows nodes that only pods
    name.

    An earlier answer is still right if versions have not changed: ``version_of`` for one node, ``generation`` for all.
    If the answer depends on pods of other nodes, ``PodCheck.version`` must be the same, too.

    Attributes:
        pods: the same pods, indexed for terms of other pods.
        storage: volumes, their claims and classes, and limits of nodes.
    """

    def __init__(self) -> None:
        self.extended_resources = ExtendedResources()
        self.generation = 0
        """Grows with every change that can change an answer for any node."""
        self.topology = 0
        """Grows when nodes come, go, or change their labels or taints, which may change any domain of a topology."""
        self.described = 0
        """Grows when nodes come, go, or change in any field that predicates read."""
        self.domains: BoundedCache[Hashable, tuple[int, Mapping[str, str]]] = BoundedCache(_MAX_DOMAINS)
        """For ``spread``: the domain of each node, and the ``topology`` as of which it was found."""
        self.pods = PodIndex()
        self.storage = Storage()
        self._common_version = 0
        self._views: dict[str, NodeView] = {}
        self._last_version = 0
        """No two versions of nodes are equal, also not those of one node at different times, or on trial."""
        self._unknown = 0
        """The version of nodes that are not known; another one since the last node was forgotten."""
        self._order: list[str] = []
        self._softly_tainted: set[str] = set()
        self._node_of: dict[str, str] = {}
        self._hosts: dict[str, set[str]] = {}
        """Nodes by their host name."""
        self._trials: list[tuple[PodChange, int]] = []
        """The changes on trial that are not undone yet, each with the version of its node before."""
        self._placed = 0
        """Pods that were placed on trial so far, whether it is undone or not."""

    def __getitem__(self, name: str) -> NodeView:
        view = self._views[name]
        if view.facts is None:
            raise KeyError(name)
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def order(self) -> Sequence[str]:
        """Names of the existing nodes, sorted. Nodes are tried in this order."""
        return self._order

    def view(self, name: str) -> NodeView:
        """The view of a node; without facts if the node does not exist."""
        return self._views.get(name) or NodeView(name)

    def labels_of(self, name: str) -> Mapping[str, str]:
        """The node's labels; none if it does not exist."""
        facts = self.view(name).facts
        return facts.labels if facts else {}

    def selected(self, selectors: Sequence[NodeSelector]) -> dict[str, None]:
        """The nodes, in order, that all of these select. A dict is a set that keeps its order."""
        labels = ((name, self.labels_of(name)) for name in self)
        return dict.fromkeys(name for name, own in labels if all(selects(one, name, own) for one in selectors))

    def version_of(self, name: str) -> tuple[int, int]:
        """A version that changes whenever an answer for the node may change."""
        view = self._views.get(name)
        return self._common_version, self._unknown if view is None else view.version

    @property
    def common_version(self) -> int:
        """The part of ``version_of`` that is the same for all nodes."""
        return self._common_version

    @property
    def has_soft_taints(self) -> bool:
        """Whether any node has a taint with the effect PreferNoSchedule."""
        return bool(self._softly_tainted)

    def node_of(self, pod: str) -> str:
        """The node that ``pod`` (namespace/name) counts on; "" for none."""
        return self._node_of.get(pod, "")

    def placements(self) -> Mapping[str, str]:
        """The node of each pod that counts on one, as it is now, for other threads."""
        return self._node_of.copy()

    def open_nodes(self) -> frozenset[str]:
        """The nodes that exist, are ready and not cordoned; what pods require besides does not count."""
        facts = (view.facts for view in self._views.values())
        return frozenset(
            one.name
            for one in facts
            if one is not None and one.ready and not (one.unschedulable or one.deleting or one.closing_conditions)
        )

    def named_by(self, needs: Needs) -> Collection[str] | None:
        """Nodes that a pod names in its node selector or required affinity; None if it does not name its nodes."""
        host = next((value for key, value in needs.labels if key == HOSTNAME), None)
        if host is not None:
            return self._hosts.get(host, ())
        if needs.affinity is None:
            return None
        found: set[str] = set()
        for term in needs.affinity.terms:
            names = [one.values for one in term.fields if (one.key, one.operator) == ("metadata.name", "In")]
            hosts = [one.values for one in term.expressions if (one.key, one.operator) == (HOSTNAME, "In")]
            if not names and not hosts:
                return None
            found.update(names[0] if names else (name for host in hosts[0] for name in self._hosts.get(host, ())))
        return found

    def shape_of(self, needs: Needs) -> Hashable:
        """A key for the needs. Pods with equal keys fit the same nodes."""
        return needs.shape, frozenset(term for term, _ in self.pods.terms_against(needs.pod))

    # Changes

    def upsert(self, facts: NodeFacts) -> bool:
        """Add or update a node. Returns whether any field that predicates read has changed."""
        view = self._stored_view(facts.name)
        if view.facts == facts:
            return False
        before, view.facts = view.facts, facts
        if before is None:
            insort(self._order, facts.name)
        if before is None or (before.labels, before.taints) != (facts.labels, facts.taints):
            self.topology += 1
        self.described += 1
        self._note_host(facts.name, before, facts)
        self._note_taints(facts.name, facts.taints)
        self.mark_changed(facts.name)
        return True

    def remove(self, name: str) -> NodeView | None:
        """Remove a node, which may still have pods. Returns its view; None if it was never known."""
        view = self._views.get(name)
        if view is not None:
            if view.facts is not None:
                del self._order[bisect_left(self._order, name)]
            self._note_host(name, view.facts, None)
            view.facts = None
            self._note_taints(name, ())
            self.topology += 1
            self.described += 1
            self.mark_changed(name)
            self._forget_view(view)
        return view

    def mark_changed(self, name: str) -> None:
        """Note that answers for a node may have changed; for every node if ``name`` is ""."""
        self.generation += 1
        if name:
            if (view := self._views.get(name)) is not None:
                self._advance(view)
        else:
            self._common_version += 1

    def count(self, pod: str, needs: Needs, node: str) -> bool:
        """Count ``pod`` (namespace/name) on this node and on no other. Returns whether that can help other pods."""
        known = self._stored_view(node).holds(pod)
        if known is not None:
            return known != needs and self._recount(pod, known, needs, node)
        freed = self.discount(pod)
        view = self._stored_view(node)
        view.add(pod, needs)
        self._advance(view)
        self.pods.add(needs, node)
        self._node_of[pod] = node
        self.generation += 1
        return freed

    def _recount(self, pod: str, before: Needs, after: Needs, node: str) -> bool:
        """Update a pod that counts on the node. Labels that no term selects by change no answer."""
        view, clock = self._views[node], self.pods.clock
        view.remove(pod)
        view.add(pod, after)
        takes_other = before.taken != after.taken
        if takes_other:
            self._advance(view)
        if before.seen != after.seen:
            self.pods.remove(before, node)
            self.pods.add(after, node)
        changed = takes_other or self.pods.clock != clock
        self.generation += changed
        return changed

    def discount(self, pod: str) -> bool:
        """Stop counting the pod. Returns whether it counted anywhere."""
        node = self._node_of.pop(pod, None)
        if node is None:
            return False
        view = self._views[node]
        needs = view.remove(pod)
        self._advance(view)
        self.pods.remove(needs, node)
        self.generation += 1
        self._forget_view(view)
        return True

    # Changes on trial (``controller.cluster.WhatIf``)

    @property
    def on_trial(self) -> bool:
        """Whether pods count on trial. Then ``PodCheck.version`` and ``generation`` do not tell what has changed."""
        return bool(self._trials)

    def placing(self, pod: str, node: str, needs: Needs) -> PodChange:
        """The change that ``pod`` counts on the node, also if it counts already, there or elsewhere."""
        self._placed += 1
        return PodChange(f"{pod}#{self._placed}", node, needs)

    def removing(self, pod: str) -> PodChange | None:
        """The change that ``pod`` (namespace/name) does not count any more; None if it does not now."""
        node = self._node_of.get(pod, "")
        needs = self._views[node].holds(pod) if node else None
        return None if needs is None else PodChange(pod, node, needs, ends=True)

    def apply(self, change: PodChange) -> None:
        """Make a change on trial. Until it is undone, no event may come."""
        view = self._stored_view(change.node)
        self._trials.append((change, view.version))
        self._change(view, change, ends=change.ends)
        self._advance(view)

    def revert(self, change: PodChange) -> None:
        """Undo a change on trial: the last one. All versions are as before."""
        last, version = self._trials.pop()
        assert last is change, "changes on trial are undone in reverse order"
        view = self._views[change.node]
        self._change(view, change, ends=not change.ends)
        view.version = version
        if version == self._unknown:
            del self._views[change.node]
        if not self._trials:
            self.pods.end_trial()

    def _change(self, view: NodeView, change: PodChange, *, ends: bool) -> None:
        if ends:
            view.remove(change.pod)
            self.pods.remove(change.needs, change.node, trial=True)
        else:
            view.add(change.pod, change.needs)
            self.pods.add(change.needs, change.node, trial=True)

    def _advance(self, view: NodeView) -> None:
        self._last_version += 1
        view.version = self._last_version

    def _note_host(self, name: str, before: NodeFacts | None, after: NodeFacts | None) -> None:
        old, new = (None if facts is None else facts.labels.get(HOSTNAME) for facts in (before, after))
        if old == new:
            return
        if old is not None:
            self._hosts[old].discard(name)
            if not self._hosts[old]:
                del self._hosts[old]
        if new is not None:
            self._hosts.setdefault(new, set()).add(name)

    def _note_taints(self, name: str, taints: Iterable[NodeTaint]) -> None:
        if any(taint.effect == "PreferNoSchedule" for taint in taints):
            self._softly_tainted.add(name)
        else:
            self._softly_tainted.discard(name)

    def _stored_view(self, name: str) -> NodeView:
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = NodeView(name)
            view.version = self._unknown
        return view

    def _forget_view(self, view: NodeView) -> None:
        """Forget a node that does not exist and has no pods. With an autoscaler, its name never comes again."""
        if view.facts is None and not view.pods:
            self._last_version += 1
            self._unknown = self._last_version
            del self._views[view.name]
