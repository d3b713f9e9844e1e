"""Why no node takes a pod, found once for all pods of a shape. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from controller.reconcile import (
    Explanation,
    RefusalMemory,
    Unallocatable,
    Wait,
    explanation_of,
    impossible,
    node_refusals,
)
from controller.state import State
from driver.bounded import BoundedCache

FRESH_SECONDS: Final = 10.0
"""How long an explanation is used for other pods of the shape although the cluster has changed since."""
_MOST_SHAPES: Final = 256


@dataclass(frozen=True, slots=True)
class _Found:
    generation: int
    at: float
    explanation: Explanation


class Explanations:
    """The explanation of each shape of pods, as it was found last.

    To find one costs as much as asking every node. A thousand pods of one shape get the same one, in their own words.
    """

    def __init__(self) -> None:
        self._found: BoundedCache[Hashable, _Found] = BoundedCache(_MOST_SHAPES)

    def wait(self, state: State, decision: Unallocatable, memory: RefusalMemory, now: float) -> tuple[Wait, int]:
        """What the pod is told, and the generation of the nodes (``Nodes.generation``) that it was found for.

        Args:
            memory: takes in what is found about nodes.
            now: monotonic seconds.
        """
        shape = (decision.group, *sorted(decision.held.items()))
        known = self._found.get(shape)
        if known is None or (known.generation != state.nodes.generation and now - known.at >= FRESH_SECONDS):
            refusals = node_refusals(state, decision, memory)
            memory.remember_refusals(decision.shape, refusals)
            in_vain = impossible(state, decision, refusals)
            explanation = explanation_of(refusals, decision.claims, decision.bound_to, in_vain, not state.nodes)
            known = _Found(state.nodes.generation, now, explanation)
            self._found[shape] = known
        return Wait(known.explanation.reason, known.explanation.message(decision.claims)), known.generation
