"""Checks node by node whether a pod can run there, how many like it can, and whom it would evict. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.placement.needs import Needs
from controller.placement.nodes import ExtendedResources, NodeFacts, Nodes, NodeView, Reasons
from controller.placement.predicates import (
    affinity_check,
    affinity_version,
    closed,
    facts_reasons,
    fits,
    spread_check,
    spread_version,
)
from controller.placement.volumes import volume_check, volume_version
from driver.quantity import NANO

Victims = tuple[int, ...]
"""Priorities of the pods to evict."""


class PodCheck:
    """All predicates for one pod. Work for all nodes is done once, and only if a node passes the cheap predicates.

    A check is valid until pods or nodes change.
    """

    def __init__(self, pod: str, needs: Needs, nodes: Nodes):
        """Prepare checks for ``pod`` (namespace/name). Resources that the pod already has do not count against it."""
        self._pod = pod
        self._needs = needs
        self._nodes = nodes
        self._prepared: tuple[Reasons, ...] | None = None

    def passes(self, node: str) -> bool:
        """Whether the pod can run on the node of this name."""
        if fits(self._pod, self._needs, self._nodes.view(node), self._nodes.extended_resources):
            return False
        return not self._checks or not any(self._common_reasons(node))

    def passes_with_room(self, facts: NodeFacts) -> bool:
        """The same for a node that has room for the pod by all amounts and host ports."""
        if facts.deleting or facts_reasons(self._needs, facts):
            return False
        return not self._checks or not any(self._common_reasons(facts.name))

    def reasons(self, node: str) -> tuple[str, ...]:
        """Reasons why the pod cannot run there; empty if it can. They name no node, so equal ones can be counted."""
        view = self._nodes.view(node)
        own = fits(self._pod, self._needs, view, self._nodes.extended_resources)
        if view.facts is None:
            return own
        return (*own, *self._common_reasons(node))

    def closed(self, node: str) -> tuple[str, ...]:
        """Reasons why the pod may not be there even if it is bound to the node (``predicates.closed``)."""
        return closed(self._needs, self._nodes.view(node))

    def victims(self, node: str) -> Victims | None:
        """The pods that kube-scheduler would evict there for the pod; None if evicting pods does not help."""
        found = victims(self._pod, self._needs, self._nodes.view(node), self._nodes.extended_resources)
        return None if found is None or any(self._common_reasons(node)) else found

    @property
    def depends_on_others(self) -> bool:
        """Whether host ports, volumes, or pods on other nodes restrict the pod."""
        return bool(self._needs.ports or self._checks)

    @property
    def version(self) -> tuple[tuple[int, ...], ...]:
        """A version that, with ``Nodes.version_of`` a node, changes whenever an answer there may change."""
        needs, nodes = self._needs, self._nodes
        return affinity_version(needs, nodes), spread_version(needs, nodes), volume_version(needs, nodes)

    def _common_reasons(self, node: str) -> Iterable[str]:
        labels = self._nodes.labels_of(node)
        return (reason for check in self._checks for reason in check(node, labels))

    @property
    def _checks(self) -> tuple[Reasons, ...]:
        if self._prepared is None:
            found = (
                affinity_check(self._pod, self._needs, self._nodes),
                volume_check(self._pod, self._needs, self._nodes),
                spread_check(self._pod, self._needs, self._nodes),
            )
            self._prepared = tuple(check for check in found if check is not None)
        return self._prepared


# Like pods


class NodeCapacity(NamedTuple):
    """Number of pods that fit at once, and the reason why one more does not."""

    pods: int
    limit: str


class PodCapacity:
    """The capacity of nodes for a pod and others like it. Valid until pods or nodes change.

    Attributes:
        version: with ``Nodes.version_of`` a node, changes whenever an answer there may change.
    """

    def __init__(self, pod: str, needs: Needs, nodes: Nodes):
        self._check = PodCheck(pod, needs, nodes)
        self._pod = pod
        self._ports = needs.ports
        self._requests = [(name, amount, f"insufficient {name}") for name, amount in sorted(needs.requests.items())]
        self._nodes = nodes
        self.version = self._check.version

    def on(self, node: str) -> NodeCapacity:
        """The capacity of a node. Volumes, affinity and spread among the like pods themselves do not count."""
        view = self._nodes.view(node)
        facts = view.facts
        if facts is None:
            return NodeCapacity(0, self._check.reasons(node)[0])
        allocatable, used, lacks = facts.allocatable, view.used, False
        pods, limit = allocatable.get("pods", 0) // NANO - view.pods, "too many pods"
        if self._ports:
            pods, limit = 1, f"host port {self._ports[0].port}/{self._ports[0].protocol} is taken"
        for name, amount, lacking in self._requests:
            if not (total := allocatable.get(name, 0)):
                # Only devices can stand for a resource that the node lacks; the check tells.
                lacks = True
            elif (left := (total - used.get(name, 0)) // amount) < pods:
                pods, limit = left, lacking
        # Room for one more by every amount is what the dearest predicate would find out, for all but pods that count.
        has_room = pods > 0 and not (lacks or self._ports or view.holds(self._pod) is not None)
        if not (self._check.passes_with_room(facts) if has_room else self._check.passes(node)):
            return NodeCapacity(0, self._check.reasons(node)[0])
        return NodeCapacity(pods, limit)


# Evictions


def victims(pod: str, needs: Needs, node: NodeView, extended: ExtendedResources) -> Victims | None:
    """Pods that kube-scheduler would evict from ``node`` for ``pod`` (namespace/name); None if that does not help.

    As in kube-scheduler (plugin DefaultPreemption), all pods of lower priority are removed, and then put back in the
    order of priority where they still fit. What counts is CPU, memory, other resources, number of pods, and host ports.
    ``extended`` as of ``fits``.
    """
    if not needs.preempts or node.facts is None:
        return None
    left = NodeView.without_pods(node.facts)
    lower: list[tuple[str, Needs]] = []
    for key, held in node.held():
        if held.priority < needs.priority and key != pod:
            lower.append((key, held))
        else:
            left.add(key, held)
    if not lower or fits(pod, needs, left, extended):
        return None
    lower.sort(key=lambda entry: (-entry[1].priority, entry[0]))
    return tuple(_evicted(pod, needs, left, lower, extended))


def _evicted(
    pod: str, needs: Needs, left: NodeView, lower: list[tuple[str, Needs]], extended: ExtendedResources
) -> Iterator[int]:
    for key, held in lower:
        left.add(key, held)
        if fits(pod, needs, left, extended):
            left.remove(key)
            yield held.priority


def harm(found: Victims) -> tuple[int, int, int]:
    """Harm of evictions, by which kube-scheduler compares nodes: highest priority, sum of priorities, number."""
    return max(found, default=0), sum(found), len(found)
