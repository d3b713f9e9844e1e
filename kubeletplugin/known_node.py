"""The API as preparing sees it: the Node of this plugin is watched anyway, so it need not be read for each claim."""

from collections.abc import Callable

from driver.kube.api import NODES, Api, Object, Resource, nothing
from driver.kube.decorator import ApiDecorator


class KnownNode(ApiDecorator):
    """Answers for one Node with what a watch has seen last, and passes every other call on.

    Args:
        watched: the Node; None while it is not known, or does not exist. Then the API is asked.
    """

    def __init__(self, api: Api, node_name: str, watched: Callable[[], Object | None]):
        super().__init__(api)
        self._node_name = node_name
        self._watched = watched

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, meanwhile: Callable[[], object] = nothing
    ) -> Object:
        """See ``Api``. The Node can be as old as the watch lags behind; its labels decide nothing about devices."""
        if resource == NODES and name == self._node_name and (node := self._watched()) is not None:
            meanwhile()
            return node
        return super().get(resource, name, namespace, meanwhile=meanwhile)
