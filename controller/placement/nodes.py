"""A node as the predicates see it, kept up to date pod by pod instead of being summed up for each decision."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.placement.needs import Amounts, HostPort, Needs
from driver.quantity import Quantity

Json = Mapping[str, Any]


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
    """What a Node object says. Two equal values mean that nothing a predicate looks at has changed."""

    name: str
    ready: bool = False
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    allocatable: Amounts = field(default_factory=dict)
    deleting: bool = False


def facts_of(node: Json) -> NodeFacts:
    """The facts of a Node object. A node that has not reported its readiness is not ready."""
    spec, status, metadata = node.get("spec") or {}, node.get("status") or {}, node["metadata"]
    return NodeFacts(
        name=metadata["name"],
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        labels=dict(metadata.get("labels") or {}),
        taints=tuple(NodeTaint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        allocatable={name: Quantity.parse(str(v)).nanos for name, v in (status.get("allocatable") or {}).items()},
        deleting=bool(metadata.get("deletionTimestamp")),
    )


class NodeView:
    """One node and the sum of what the pods on it, or promised to it, take.

    A pod counts from the moment its claims are allocated on the node: kube-scheduler has yet to bind it, and a second
    pod must not be sent to the same CPU meanwhile.
    """

    __slots__ = ("_held", "facts", "ports", "used", "version")

    def __init__(self, name: str):
        self.facts: NodeFacts | None = None
        """None while only pods name the node."""
        self.used: Counter[str] = Counter()
        self.ports: Counter[HostPort] = Counter()
        self.version = 0
        """Grows with every change that can change a predicate's answer, or an allocation on the node."""
        self._held: dict[str, Needs] = {}

    @property
    def pods(self) -> int:
        """How many pods count."""
        return len(self._held)

    def holds(self, pod: str) -> Needs | None:
        """What ``pod`` (namespace/name) takes here, or None."""
        return self._held.get(pod)

    def add(self, pod: str, needs: Needs) -> bool:
        """Count the pod, or count it anew; returns whether anything changed."""
        if (known := self._held.get(pod)) == needs:
            return False
        if known is not None:
            self.remove(pod)
        self._held[pod] = needs
        self.used.update(needs.requests)
        self.ports.update(needs.ports)
        self.version += 1
        return True

    def remove(self, pod: str) -> bool:
        """Count the pod no more; returns whether it counted."""
        needs = self._held.pop(pod, None)
        if needs is None:
            return False
        self.used.subtract(needs.requests)
        self.ports.subtract(needs.ports)
        self.ports = +self.ports
        self.version += 1
        return True
