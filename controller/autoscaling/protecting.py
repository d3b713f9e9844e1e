"""Keeps autoscalers from nodes where devices are held behind our gate, for as long as they are.

Autoscalers count a node as empty while no pod is bound to it, even if devices there are allocated for pods that still
have gates. A node that is awaited by such pods for long gets the annotation for which Karpenter leaves it alone, and
beside it our own, which says who set it. An annotation that somebody else has set is left as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.reconcile.lettinggo import is_bound_by_nobody
from controller.state import Changes, State
from controller.state.knownnodes import DO_NOT_DISRUPT, PROTECTED, ending_protection
from controller.worker import RetryTimes, Shared, Worker
from controller.writing import Lane, WriteResult, WriteSequence
from controller.writing.steps import AnnotateNode, Target
from driver.kube.api import NODES


@dataclass(frozen=True, slots=True)
class ProtectNode:
    """Annotations of a node to be changed, if it is still the known version.

    Attributes:
        annotations: the new values; None removes the annotation.
    """

    node: str
    uid: str
    version: str
    annotations: Mapping[str, str | None]


def awaited_nodes(state: State, now: float) -> frozenset[str]:
    """Return the nodes where pods have a place that are not bound, but may be yet at ``now`` (``State.at``)."""
    awaited = state.unbound.items()
    return frozenset(node for pod, node in awaited if not is_bound_by_nobody(state, state.pods[pod], now))


def protection_changes(state: State, awaited: Mapping[str, bool]) -> Iterator[ProtectNode]:
    """Yield the nodes whose annotations have to be changed, in the order of their names.

    Args:
        awaited: for each of the ``awaited_nodes``, whether it is one for so long that it has to be protected.
    """
    for node in sorted({*awaited, *state.protections.ours}):
        value, annotations = state.protections.protection_of(node).value, dict[str, str | None]()
        if node not in awaited:
            annotations = {**ending_protection(state.names, value)}
        elif awaited[node] and value is None and node in state.nodes:
            annotations = {state.names.protection: PROTECTED, DO_NOT_DISRUPT: PROTECTED}
        if annotations:
            yield ProtectNode(node, state.uid_of(NODES, node), state.version_of(NODES, node), annotations)


AWAITED_SECONDS: Final = 5.0
"""How long a node is awaited before it is protected. Karpenter was seen to delete a node 25 s after it had become
empty, 5 s of which were its ``consolidateAfter``."""
LOOK_SECONDS: Final = 1.0
"""Time between two looks at the nodes, while any is awaited or protected."""
_AFTER_NO_ANSWER_SECONDS: Final = 5.0


class Protecting(Worker):
    """The nodes where pods have a place that are not bound, and the annotations that keep autoscalers from them.

    Nothing of it outlives a term: which nodes are protected is read from the nodes, and those that are not awaited
    are given back, whoever set our annotation. Those that an earlier run protected are given back also if the settings
    protect none now.
    """

    def __init__(self, shared: Shared):
        super().__init__(shared)
        self._enabled = shared.settings.autoscaling.enabled
        self._look_at = 0.0
        self._since: dict[str, float] = {}
        """When each of the awaited nodes was seen as such first (monotonic seconds)."""
        self._retries: RetryTimes[str] = RetryTimes(changed=0, unanswered=_AFTER_NO_ANSWER_SECONDS)

    @property
    def _in_use(self) -> bool:
        return bool(self._state.protections.ours or (self._enabled and (self._state.unbound or self._since)))

    def next_due(self) -> float | None:
        """As ``Worker.next_due``: None while no node is awaited or protected."""
        return self._look_at if self._in_use else None

    def work(self) -> bool:
        """Have annotations of nodes changed if a look is due; return whether there were any to change."""
        now = self._clock.monotonic()
        if not self._in_use or now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        self._since = {node: self._since.get(node, now) for node in sorted(awaited_nodes(self._state, now))}
        long = {node: self._enabled and now - since >= AWAITED_SECONDS for node, since in self._since.items()}
        changes = [one for one in protection_changes(self._state, long) if self._retries.at(one.node) <= now]
        for change in changes:
            self._write(change)
        return bool(changes)

    def _write(self, change: ProtectNode) -> None:
        target = Target(NODES, change.node, change.uid, change.version)
        step = AnnotateNode(target, change.annotations)
        sequence = WriteSequence(("reported", change.node), (step,), Lane.REPORTING, author=self)
        self._retries.begin(change.node)
        self._writes.report(((NODES, change.node), "protection"), sequence)

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a write. A node that has changed meanwhile is looked at again."""
        [step] = result.sequence.steps
        node = step.target.key
        lasting = self._retries.end(node, result.error, self._clock.monotonic())
        if result.error is None:
            protected = isinstance(step, AnnotateNode) and step.annotations.get(DO_NOT_DISRUPT) is not None
            self._log.info(
                "node protected from autoscalers" if protected else "node given back to autoscalers", node=node
            )
        elif lasting:
            remedy = f"allow the controller to patch nodes, or remove {self._state.names.protection} by hand"
            self._log.warning("annotations of node not written", node=node, error=str(result.error), remedy=remedy)
