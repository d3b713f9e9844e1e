"""The fields of a Node object that predicates read."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from controller.placement.needs import Amounts
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
