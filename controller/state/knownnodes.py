"""Nodes: their facts, the annotations by which they are kept from autoscalers, and who has set these. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from controller.allocation import Fleet
from controller.placement import NodeFacts, Nodes, facts_of
from controller.state.changes import Changes
from controller.state.revisions import NodeRevisions
from driver.names import Names
from driver.wire import Json
from driver.wire.fields import text

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

    def of(self, node: str) -> Protection:
        """Return what the annotations of a node say."""
        return self.known.get(node, _NONE)

    def put(self, node: str, protection: Protection) -> None:
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

    def __init__(self, nodes: Nodes, revisions: NodeRevisions, devices: Fleet, protections: Protections):
        self._nodes = nodes
        self._revisions = revisions
        self._devices = devices
        self._protections = protections

    def on_update(self, node: DecodedNode, changes: Changes) -> None:
        """See ``controller.state.handlers.Handler``. An annotation changes no decision about pods."""
        facts = node.facts
        self._protections.put(facts.name, node.protection)
        if self._nodes.upsert(facts):
            self._devices.upsert_node(facts.name, facts.labels)
            self._revisions.advance(facts.name)
            changes.favour(facts.name)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``controller.state.handlers.Handler``."""
        self._protections.remove(key)
        if node := self._nodes.remove(key):
            self._devices.remove_node(key)
            self._revisions.advance(key)
            self._revisions.keep(frozenset(self._nodes))
            if node.pods:
                changes.favour("")
