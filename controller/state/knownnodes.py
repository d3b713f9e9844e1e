"""The objects by which nodes are chosen: nodes, and namespaces, volumes and their classes. Pure.

Of a node, it is also known how often others changed it, and which annotations keep autoscalers from it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from controller.allocation import DeviceLedger
from controller.placement import NodeFacts, Nodes, VolumeClaim, facts_of
from controller.state.changes import Changes
from controller.state.pods import PodView
from driver.kube.api import Object
from driver.names import Names
from driver.wire import Json
from driver.wire.fields import text, text_map

V = TypeVar("V")
_MOST_FORGOTTEN: Final = 1000
"""Most names of nodes that do not exist and may be kept."""

Revision = tuple[object, ...]
"""A node as a pod sees it; only compared with others of the same node and pod."""


class NodeRevisions:
    """Revisions of nodes, by which a refusal of kube-scheduler is known to be out of date.

    A revision grows when the Node object changes, when a pod is bound there or ends there, when the slices of the node
    change, and when another driver's devices there are allocated or freed. Unlike ``Nodes.version_of``, it does not
    grow when this controller allocates devices there or takes them back: kube-scheduler's answer stays the same.
    """

    def __init__(self) -> None:
        self._common = 0
        self._own: dict[str, int] = {}
        self._last = 0

    def revision_of(self, node: str) -> tuple[int, int]:
        """Return the node's revision; it differs from an earlier one if others have changed something there since."""
        return self._common, self._own.get(node, 0)

    def advance(self, node: str) -> None:
        """Note that something on the node has changed; on every node if ``node`` is ""."""
        if node:
            # A name that was forgotten gets no revision again that it had before.
            self._last += 1
            self._own[node] = self._last
        else:
            self._common += 1

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the names of nodes other than these, if they are many: with an autoscaler, names never come again."""
        if len(self._own) > 2 * len(nodes) + _MOST_FORGOTTEN:
            self._own = {node: revision for node, revision in self._own.items() if node in nodes}


DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""The annotation for which Karpenter leaves a node alone, if its value is ``true``."""
PROTECTED: Final = "true"
"""The value of this annotation, and of our own, on a node that this controller protects."""


@dataclass(frozen=True, slots=True)
class Protection:
    """What the annotations of a node say.

    Attributes:
        value: of the annotation that Karpenter reads; None if the node does not have it.
        ours: whether this controller has set it: our own annotation says so.
    """

    value: str | None = None
    ours: bool = False


_NONE: Final = Protection()


@dataclass(frozen=True, slots=True)
class DecodedNode:
    """The part of a Node object that is kept."""

    facts: NodeFacts
    protection: Protection


def node_from(node: Json, names: Names, closing: Collection[str] = ()) -> DecodedNode:
    """Return the part of a Node object that is kept; ``closing`` as for ``facts_of``."""
    annotations = node["metadata"].get("annotations") or {}
    said = text(annotations[DO_NOT_DISRUPT]) if DO_NOT_DISRUPT in annotations else None
    protection = Protection(said, names.protection in annotations)
    return DecodedNode(facts_of(node, closing), protection)


def ending_protection(names: Names, value: str | None) -> Mapping[str, str | None]:
    """Return the changes of annotations that end our protection of a node with this value of Karpenter's annotation.

    A value that is not ours was set by somebody else since, and stays.
    """
    return {names.protection: None, **({DO_NOT_DISRUPT: None} if value == PROTECTED else {})}


class Protections:
    """The nodes with such annotations.

    Attributes:
        known: what the annotations of each of them say.
        ours: those that this controller protects.
    """

    def __init__(self) -> None:
        self.known: dict[str, Protection] = {}
        self.ours: dict[str, None] = {}

    def protection_of(self, node: str) -> Protection:
        """Return what the annotations of a node say."""
        return self.known.get(node, _NONE)

    def upsert(self, node: str, protection: Protection) -> None:
        """Take in what the annotations of a node say now."""
        self.remove(node)
        if protection != _NONE:
            self.known[node] = protection
        if protection.ours:
            self.ours[node] = None

    def remove(self, node: str) -> None:
        """Forget a node."""
        self.known.pop(node, None)
        self.ours.pop(node, None)


class NodeHandler:
    """Nodes."""

    def __init__(self, nodes: Nodes, revisions: NodeRevisions, ledger: DeviceLedger, protections: Protections):
        self._nodes = nodes
        self._revisions = revisions
        self._ledger = ledger
        self._protections = protections

    def on_update(self, node: DecodedNode, changes: Changes) -> None:
        """See ``Handler``. An annotation changes no decision about pods."""
        facts = node.facts
        self._protections.upsert(facts.name, node.protection)
        if self._nodes.upsert(facts):
            self._ledger.upsert_node(facts.name, facts.labels)
            self._revisions.advance(facts.name)
            changes.favour(facts.name)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._protections.remove(key)
        if node := self._nodes.remove(key):
            self._ledger.remove_node(key)
            self._revisions.advance(key)
            self._revisions.keep(frozenset(self._nodes))
            if node.pods:
                changes.favour("")


# Namespaces and volumes

Namespace = tuple[str, Mapping[str, str]]
"""A namespace's name and labels."""


def namespace_from(obj: Object) -> Namespace:
    """Return the name and the labels of a Namespace object."""
    return text(obj["metadata"]["name"]), text_map(obj["metadata"].get("labels"))


class NamespaceHandler:
    """Namespaces: their labels, which terms of pods may select."""

    def __init__(self, nodes: Nodes):
        self._nodes = nodes

    def on_update(self, namespace: Namespace, changes: Changes) -> None:
        """See ``Handler``."""
        self._put(*namespace, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._put(key, None, changes)

    def _put(self, name: str, labels: Mapping[str, str] | None, changes: Changes) -> None:
        if self._nodes.pods.put_namespace(name, labels):
            self._nodes.generation += 1
            changes.favour("")


class PodsWithVolumes:
    """The pods without a node that use claims for volumes, by claim."""

    def __init__(self) -> None:
        self._by_claim: dict[str, dict[str, None]] = {}
        self._claims_of: dict[str, tuple[str, ...]] = {}

    def upsert(self, pod: PodView) -> None:
        """Add or replace a pod."""
        self.remove(pod.key)
        if pod.needs.volumes and not pod.node_name:
            self._claims_of[pod.key] = tuple(use.claim for use in pod.needs.volumes)
            for claim in self._claims_of[pod.key]:
                self._by_claim.setdefault(claim, {})[pod.key] = None

    def remove(self, key: str) -> None:
        """Remove a pod."""
        for claim in self._claims_of.pop(key, ()):
            users = self._by_claim.get(claim, {})
            users.pop(key, None)
            if not users:
                self._by_claim.pop(claim, None)

    def using(self, claim: str = "") -> tuple[str, ...]:
        """Return the keys of the pods that use the claim (namespace/name); of all pods that use any if it is ""."""
        return tuple(self._by_claim.get(claim, ()) if claim else self._claims_of)


class VolumeHandler(Generic[V]):
    """Volumes, storage classes, or limits of nodes: every pod that waits with volumes is decided anew."""

    def __init__(self, nodes: Nodes, waiting: PodsWithVolumes, put: Callable[[V], bool], remove: Callable[[str], bool]):
        self._nodes = nodes
        self._waiting = waiting
        self._put = put
        self._remove = remove

    def on_update(self, value: V, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._put(value), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._remove(key), changes)

    def _note(self, changed: bool, changes: Changes) -> None:
        if changed:
            self._nodes.generation += 1
            changes.pods.update(dict.fromkeys(self._waiting.using()))


class VolumeClaimHandler:
    """Claims for volumes: the pods that use them are decided anew."""

    def __init__(self, nodes: Nodes, waiting: PodsWithVolumes):
        self._nodes = nodes
        self._waiting = waiting

    def on_update(self, claim: VolumeClaim, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._nodes.storage.put_claim(claim), claim.key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._nodes.storage.remove_claim(key), key, changes)

    def _note(self, changed: bool, key: str, changes: Changes) -> None:
        if changed:
            self._nodes.generation += 1
            changes.pods.update(dict.fromkeys(self._waiting.using(key)))
