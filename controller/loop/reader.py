"""Reads single objects from the API into the state, ahead of the watches."""

from collections.abc import Callable

from controller.state import Changes, State
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, NotFound, Resource


class ObjectReader:
    """Reads pods and claims again. Every method may raise any ApiError but NotFound.

    Args:
        changed: called with what has to be looked at again, after every read.
    """

    def __init__(self, api: Api, state: State, changed: Callable[[Changes], None]):
        self._api = api
        self._state = state
        self._changed = changed

    def read_pod_and_claims(self, key: str) -> None:
        """Read the pod and its claims."""
        self.read(PODS, key)
        pod = self._state.pods.get(key)
        for claim in pod.claim_keys if pod else ():
            self.read(RESOURCE_CLAIMS, claim)

    def read(self, resource: Resource, key: str) -> None:
        """Read one object (``namespace/name``); if it does not exist, remove it from the state."""
        namespace, name = key.split("/")
        try:
            self._changed(self._state.put(resource, self._api.get(resource, name, namespace)))
        except NotFound:
            self._changed(self._state.drop(resource, key))
