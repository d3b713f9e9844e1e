"""Keeps autoscalers from nodes where devices are held behind our gate, for as long as they are."""

from typing import Final

from controller.reconcile import ProtectNode, awaited_nodes, protection_changes
from controller.state import DO_NOT_DISRUPT, State
from controller.writing import Lane, WriteResult, Writes, WriteSequence
from controller.writing.steps import AnnotateNode, Target
from driver.clock import Clock
from driver.kube.api import NODES, Conflict, NotFound, Unavailable
from driver.observe import Logger

AWAITED_SECONDS: Final = 5.0
"""How long a node is awaited before it is protected. Karpenter was seen to delete a node 25 s after it had become
empty, 5 s of which were its ``consolidateAfter``."""
LOOK_SECONDS: Final = 1.0
"""Time between two looks at the nodes, while any is awaited or protected."""
AFTER_NO_ANSWER_SECONDS: Final = 5.0
AFTER_FAILURE_SECONDS: Final = 60.0


class Protecting:
    """The nodes where pods have a place that are not bound, and the annotations that keep autoscalers from them.

    Nothing of it outlives a term: which nodes are protected is read from the nodes, and those that are not awaited
    are given back, whoever set our annotation.

    Args:
        enabled: whether nodes are protected. Those that an earlier run protected are given back in any case.
    """

    def __init__(self, writes: Writes, clock: Clock, state: State, log: Logger, *, enabled: bool):
        self._writes = writes
        self._clock = clock
        self._state = state
        self._log = log
        self._enabled = enabled
        self._look_at = 0.0
        self._since: dict[str, float] = {}
        """When each of the awaited nodes was seen as such first (monotonic seconds)."""
        self._under_way: set[str] = set()
        self._paused: dict[str, float] = {}
        """When a node is written again whose write failed."""

    @property
    def _in_use(self) -> bool:
        return bool(self._state.protections.ours or (self._enabled and (self._state.unbound or self._since)))

    def next_due(self) -> float | None:
        """Return when ``look`` has something to do (monotonic seconds); None while no node is awaited or protected."""
        return self._look_at if self._in_use else None

    def look(self) -> bool:
        """Have annotations of nodes changed if a look is due; return whether there were any to change."""
        now = self._clock.monotonic()
        if not self._in_use or now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        self._since = {node: self._since.get(node, now) for node in sorted(awaited_nodes(self._state, now))}
        self._paused = {node: until for node, until in self._paused.items() if until > now}
        long = {node: self._enabled and now - since >= AWAITED_SECONDS for node, since in self._since.items()}
        changes = [
            change
            for change in protection_changes(self._state, long)
            if change.node not in self._under_way and change.node not in self._paused
        ]
        for change in changes:
            self._write(change)
        return bool(changes)

    def _write(self, change: ProtectNode) -> None:
        target = Target(NODES, change.node, change.uid, change.version)
        sequence = WriteSequence(("reported", change.node), (AnnotateNode(target, change.annotations),), Lane.REPORTING)
        self._under_way.add(change.node)
        self._writes.report(((NODES, change.node), "protection"), sequence)

    def on_result(self, result: WriteResult) -> None:
        """Take in the result of a write. A node that has changed meanwhile is looked at again."""
        [step] = result.sequence.steps
        node = step.target.key
        self._under_way.discard(node)
        if result.error is None:
            protected = isinstance(step, AnnotateNode) and step.annotations.get(DO_NOT_DISRUPT) is not None
            self._log.info(
                "node protected from autoscalers" if protected else "node given back to autoscalers", node=node
            )
        elif isinstance(result.error, Unavailable):
            self._paused[node] = self._clock.monotonic() + AFTER_NO_ANSWER_SECONDS
        elif not isinstance(result.error, Conflict | NotFound):
            self._paused[node] = self._clock.monotonic() + AFTER_FAILURE_SECONDS
            remedy = f"allow the controller to patch nodes, or remove {self._state.names.protection} by hand"
            self._log.warning("annotations of node not written", node=node, error=str(result.error), remedy=remedy)
