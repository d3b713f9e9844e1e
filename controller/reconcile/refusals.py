"""The nodes that refused pods, remembered while nothing changes. Pure."""

from collections.abc import Hashable, Mapping
from typing import Final

from controller.allocation import NodeReasons
from controller.reconcile.decisions import PodRefusal
from driver.bounded import BoundedCache

_MAX_SHAPES: Final = 64
"""Most shapes of pods that are remembered."""


class RefusalMemory:
    """The nodes that refused pods, by shape of pod. Its owner fills it from decisions; ``Questions`` only reads it.

    With it, a shape of pod that every node refused is not tried again until something changes, and a node's reasons
    are found again only when something there has changed.
    """

    def __init__(self) -> None:
        self._generations: BoundedCache[Hashable, int] = BoundedCache(_MAX_SHAPES)
        self._reasons: BoundedCache[Hashable, dict[str, NodeReasons]] = BoundedCache(_MAX_SHAPES)

    def refused_by_all(self, shape: Hashable, generation: int) -> bool:
        """Return whether every node refused pods of this shape, and ``Nodes.generation`` is the same since."""
        return self._generations.get(shape) == generation

    def reasons_of(self, shape: Hashable) -> Mapping[str, NodeReasons]:
        """Return why nodes refuse pods of this shape. What is said of a node holds while its version is the node's."""
        return self._reasons.get(shape, {})

    def remember(self, refusal: PodRefusal, generation: int) -> None:
        """Remember a decision that no node takes a pod, made at this ``Nodes.generation``."""
        if refusal.why.by_every_node:
            self._generations[refusal.why.shape] = generation

    def remember_reasons(self, shape: Hashable, found: Mapping[str, NodeReasons]) -> None:
        """Remember the reasons that ``Questions`` found, by node."""
        lasting = {
            name: reasons for name, reasons in found.items() if reasons.version is not None and not reasons.clause
        }
        self._reasons[shape] = {**self._reasons.get(shape, {}), **lasting}


NO_MEMORY = RefusalMemory()
"""An empty memory, for a decision on its own. Nobody fills it."""
