"""The value that a decision takes into account besides the state and the history. Pure."""

from dataclasses import dataclass
from typing import Final

from controller.reconcile.nodes import ANY_NODE, NodeRestrictions
from controller.reconcile.refusals import NO_MEMORY, RefusalMemory


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The limits that other pods and earlier decisions set to a decision about a pod or gang."""

    restrictions: NodeRestrictions = ANY_NODE
    """The nodes that are held back from the pod, or tried last."""
    memory: RefusalMemory = NO_MEMORY
    """The shapes of pods that every node refused."""
    max_wait: float = 60
    """Most seconds that kube-scheduler gets to bind a pod."""


NO_CONTEXT: Final = DecisionContext()
