"""Checks node by node whether a pod can run there. Pure."""

from collections.abc import Iterable

from controller.placement.needs import Needs
from controller.placement.nodes import Nodes, Reasons
from controller.placement.podaffinity import affinity_check, affinity_version
from controller.placement.predicates import closed, fits
from controller.placement.preemption import Victims, victims
from controller.placement.spread import spread_check, spread_version
from controller.placement.volumes import volume_check, volume_version


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
