"""Whether one pod can run on nodes, asked node by node, and if not, why. Pure."""

from collections.abc import Callable, Hashable, Iterable, Mapping

from controller.placement.needs import Needs
from controller.placement.nodes import Nodes
from controller.placement.podaffinity import affinity_check, affinity_version
from controller.placement.predicates import fits
from controller.placement.spread import spread_check, spread_version

_Check = Callable[[Mapping[str, str]], Iterable[str]]


class PodCheck:
    """All predicates for one pod. What is the same for every node is found once, and only if a node passes the rest.

    Valid until pods or nodes change.
    """

    def __init__(self, pod: str, needs: Needs, nodes: Nodes):
        """``pod`` is ``namespace/name``: what the pod itself already takes does not count against it."""
        self._pod = pod
        self._needs = needs
        self._nodes = nodes
        self._prepared: tuple[_Check, ...] | None = None

    def passes(self, node: str) -> bool:
        """Whether the pod can run on the node of this name."""
        if fits(self._pod, self._needs, self._nodes.view(node), self._nodes.extended_resources):
            return False
        labels = self._nodes.labels_of(node)
        return not any(reason for check in self._checks for reason in check(labels))

    def reasons(self, node: str) -> tuple[str, ...]:
        """Every reason why the pod cannot run there; empty if it can. They name no node: equal ones are counted."""
        view = self._nodes.view(node)
        own = fits(self._pod, self._needs, view, self._nodes.extended_resources)
        if view.facts is None:
            return own
        labels = view.facts.labels
        return (*own, *(reason for check in self._checks for reason in check(labels)))

    @property
    def version(self) -> Hashable:
        """With ``Nodes.version_of`` a node: differs from earlier if an answer there can have changed since."""
        return affinity_version(self._needs, self._nodes), spread_version(self._needs, self._nodes)

    @property
    def _checks(self) -> tuple[_Check, ...]:
        if self._prepared is None:
            found = (
                affinity_check(self._pod, self._needs, self._nodes),
                spread_check(self._pod, self._needs, self._nodes),
            )
            self._prepared = tuple(check for check in found if check is not None)
        return self._prepared
