"""Finds which of the pods that wait ask autoscalers for a node, once for all pods of a shape."""

from collections.abc import Hashable, Mapping

from controller.reconcile import (
    GangDecision,
    KnownGang,
    NodeKinds,
    Unallocatable,
    kinds_of,
    wish_of,
    wishes_of_gang,
)
from controller.state import State
from driver.settings import AutoscalingSettings


class NodeWishes:
    """The wishes of pods (``controller.reconcile.newnodes``). There are none unless the operator wants them.

    The kinds of nodes are found anew when a node or a pool has changed, or what holds for all nodes, such as a class.
    """

    def __init__(self, state: State, settings: AutoscalingSettings):
        self._state = state
        self._settings = settings
        self._kinds: tuple[Hashable, NodeKinds] | None = None
        self.enabled = settings.enabled

    def of(self, answer: Unallocatable) -> str:
        """Return the wish of a pod for which this was decided; "" if it has none."""
        if not self.enabled:
            return ""
        return wish_of(self._state, self._known(), answer, unknown_kinds=self._settings.unknown_kinds)

    def of_gang(self, gang: KnownGang, decision: GangDecision) -> Mapping[str, str]:
        """Return the wishes of the members of a gang for which this was decided, by pod."""
        if not self.enabled:
            return {}
        return wishes_of_gang(self._state, self._known(), gang, decision, unknown_kinds=self._settings.unknown_kinds)

    @property
    def version(self) -> object:
        """A version that changes whenever another pod may ask for a node because of others than itself."""
        quotas = self._state.quotas
        return self._kinds_version, [quotas.uses(namespace) for namespace in quotas.namespaces]

    @property
    def _kinds_version(self) -> Hashable:
        nodes = self._state.nodes
        return nodes.described, nodes.common_version, self._state.devices.published

    def _known(self) -> NodeKinds:
        version = self._kinds_version
        if self._kinds is None or self._kinds[0] != version:
            self._kinds = version, kinds_of(self._state)
        return self._kinds[1]
