"""Finds which of the pods that wait ask autoscalers for a node."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from controller.reconcile import (
    GangDecision,
    KnownGang,
    NewNodes,
    Unallocatable,
    wish_of,
    wishes_of_gang,
)
from controller.state import State
from driver.settings import AutoscalingSettings


class NodeWishes:
    """The wishes of pods (``controller.reconcile.newnodes``). There are none unless the operator wants them.

    What a new node would take is found anew when a node or a pool has changed, or what holds for all nodes, such as a
    class.
    """

    def __init__(self, state: State, settings: AutoscalingSettings):
        self._state = state
        self._settings = settings
        self._new_nodes: tuple[Hashable, NewNodes] | None = None
        self.enabled = settings.enabled

    def of(self, answer: Unallocatable, held: Callable[[], Mapping[str, str]]) -> str:
        """Return the wish of a pod for which this was decided; "" if it has none.

        Args:
            held: returns the nodes that are held back from the pod now, which the answer may not know.
        """
        if not self.enabled:
            return ""
        return wish_of(self._state, self._known(), replace(answer, held={**answer.held, **held()}))

    def of_gang(self, gang: KnownGang, decision: GangDecision, fits_unheld: Callable[[], bool]) -> Mapping[str, str]:
        """Return the wishes of the members of a gang for which this was decided, by pod.

        Args:
            fits_unheld: returns whether the gang would have its places if no nodes were held back.
        """
        if not self.enabled:
            return {}
        return wishes_of_gang(self._state, self._known(), gang, decision, fits_unheld)

    @property
    def version(self) -> object:
        """A version that changes whenever another pod may ask for a node because of others than itself."""
        quotas = self._state.quotas
        return self._kinds_version, [quotas.uses(namespace) for namespace in quotas.namespaces]

    @property
    def _kinds_version(self) -> Hashable:
        nodes = self._state.nodes
        return nodes.described, nodes.common_version, self._state.devices.published

    def _known(self) -> NewNodes:
        version = self._kinds_version
        if self._new_nodes is None or self._new_nodes[0] != version:
            self._new_nodes = version, NewNodes(self._state, unknown_kinds=self._settings.unknown_kinds)
        return self._new_nodes[1]
