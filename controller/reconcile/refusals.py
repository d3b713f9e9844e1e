"""The nodes that refused pods, remembered while nothing changes. Pure."""

from collections.abc import Hashable, Mapping
from typing import Final

from controller.allocation import NodeReasons
from controller.reconcile.decisions import Unallocatable
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
        self._refusals: BoundedCache[Hashable, dict[str, NodeReasons]] = BoundedCache(_MAX_SHAPES)

    def refused_by_all(self, shape: Hashable, generation: int) -> bool:
        """Return whether every node refused pods of this shape, and ``Nodes.generation`` is the same since."""
        return self._generations.get(shape) == generation

    def refusals_of(self, shape: Hashable) -> Mapping[str, NodeReasons]:
        """Return the refusals of pods of this shape, by node. Each holds while its ``version`` is the node's."""
        return self._refusals.get(shape, {})

    def remember(self, decision: Unallocatable, generation: int) -> None:
        """Remember a decision that found a pod unallocatable at this ``Nodes.generation``."""
        if decision.by_every_node:
            self._generations[decision.shape] = generation

    def remember_refusals(self, shape: Hashable, refusals: Mapping[str, NodeReasons]) -> None:
        """Remember the refusals that ``Questions`` found."""
        lasting = {name: refusal for name, refusal in refusals.items() if refusal.version is not None}
        self._refusals[shape] = {**self._refusals.get(shape, {}), **lasting}


NO_MEMORY = RefusalMemory()
"""An empty memory, for a decision on its own. Nobody fills it."""
