"""Explains why no node takes a pod, once for all pods of a shape, in turns. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from controller.explaining.messages import Explanation, explanation_of
from controller.explaining.questions import Questions
from controller.reconcile import RefusalMemory
from controller.reconcile.decisions import PodRefusal
from controller.state import State
from driver.bounded import BoundedCache

FRESH_SECONDS: Final = 10.0
"""Time that an explanation is used for other pods of the shape although the cluster has changed since."""
TURN_LOOKS: Final = 30_000
"""Work of one turn, in the unit of ``Fleet.looks``: about 0.1 s of one core of 2024, at most 0.4 s."""
MOST_LOOKS: Final = 60 * TURN_LOOKS
"""Work of one explanation. Nodes that are left then are not looked at."""
_ABANDONED_SECONDS: Final = 60.0
"""Time after which an explanation that was not continued is begun anew."""
_MOST_SHAPES: Final = 256


@dataclass(frozen=True, slots=True)
class _Found:
    generation: int
    at: float
    explanation: Explanation


@dataclass(slots=True)
class _Begun:
    """An explanation that takes several turns."""

    readers: Hashable
    """Equal for pods that it holds for (``_readers``)."""
    generation: int
    at: float
    """Time of the last turn."""
    questions: Questions


class Explanations:
    """The last explanation of each shape of pods.

    Finding one costs as much as asking every node. A thousand pods of one shape get the same one, with the names of
    their own claims.
    """

    def __init__(self) -> None:
        self._found: BoundedCache[Hashable, _Found] = BoundedCache(_MOST_SHAPES)
        self._begun: _Begun | None = None

    def find(
        self, state: State, refusal: PodRefusal, memory: RefusalMemory, now: float
    ) -> tuple[Explanation, int] | None:
        """Return why no node takes the pod, and the generation of the nodes (``Nodes.generation``) that it is about.

        None if that takes further turns. Ask again then, and about no other shape before.

        Args:
            memory: takes in why nodes refuse the pod.
            now: monotonic seconds.
        """
        readers = _readers(refusal)
        known = self._found.get(readers)
        if known is None or (known.generation != state.nodes.generation and now - known.at >= FRESH_SECONDS):
            known = self._find(state, refusal, memory, now, readers)
        return (known.explanation, known.generation) if known else None

    def _find(
        self, state: State, refusal: PodRefusal, memory: RefusalMemory, now: float, readers: Hashable
    ) -> _Found | None:
        begun, self._begun = self._begun, None
        if begun is None or begun.readers != readers or now - begun.at >= _ABANDONED_SECONDS:
            begun = _Begun(readers, state.nodes.generation, now, Questions(state, refusal, MOST_LOOKS))
        questions = begun.questions
        if not questions.ask(state, refusal, memory, TURN_LOOKS):
            begun.at, self._begun = now, begun
            return None
        memory.remember_reasons(refusal.why.shape, questions.reasons)
        explanation = explanation_of(
            questions.reasons,
            refusal.why.claims,
            bound_to=refusal.why.bound_to,
            impossible=questions.impossible,
            no_nodes=not state.nodes,
        )
        found = self._found[readers] = _Found(begun.generation, now, explanation)
        return found


def _readers(refusal: PodRefusal) -> Hashable:
    """Equal for pods that may all read one explanation."""
    held = refusal.why.held
    # For whom a node is held back is named in that one's namespace alone (``Questions``).
    return (refusal.why.group, refusal.subject.partition("/")[0], *sorted(held.items())) if held else refusal.why.group
