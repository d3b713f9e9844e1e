"""The API as preparing sees it: the Node of this plugin is watched anyway, so it need not be read for each claim."""

from collections.abc import Callable
from typing import Any

from driver.kube.api import NODES, Api, ApiCall, Object
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

    def call(self, call: ApiCall) -> Any:
        """See ``Api``. The Node can be as old as the watch lags behind; its labels decide nothing about devices."""
        if call.verb == "get" and call.resource == NODES and call.name == self._node_name:
            node = self._watched()
            if node is not None:
                call.meanwhile()
                return node
        return super().call(call)
