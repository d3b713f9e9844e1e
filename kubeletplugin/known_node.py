"""Serves the Node from the watch cache, and everything else from the API."""

from collections.abc import Callable
from typing import Any

from driver.kube.api import NODES, Api, ApiCall, Object
from driver.kube.decorator import ApiDecorator


class KnownNode(ApiDecorator):
    """The API, except that one Node comes from a watch that runs anyway, instead of a read for each claim.

    Args:
        watched: returns the Node; None while it is not known or does not exist, then the API is called.
    """

    def __init__(self, api: Api, node_name: str, watched: Callable[[], Object | None]):
        super().__init__(api)
        self._node_name = node_name
        self._watched = watched

    def call(self, call: ApiCall) -> Any:
        """See ``Api``. The Node can lag behind as the watch does; its labels do not affect which devices a claim
        gets."""
        if call.verb == "get" and call.resource == NODES and call.name == self._node_name:
            node = self._watched()
            if node is not None:
                call.meanwhile()
                return node
        return super().call(call)
