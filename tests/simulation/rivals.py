"""Other writers that are faster than a program: they change an object between the program's decision and its write."""

import random
from collections.abc import Callable, Mapping
from typing import Final

from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiCall, NotFound, Object, Resource
from driver.kube.objects import controller_of, is_deleting

_DELETED: Final = 0.3
"""Share of the claims that are deleted; the others are changed."""
_SOMEBODY: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "somebody",
    "uid": "00000000-0000-4000-8000-000000000000",
}
_KEPT: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")
_SET_BY_OTHERS: Final = ("nodeName", "schedulingGates")


class Rivals:
    """Writers that change an object just before a write, so that the write must be refused.

    Args:
        api: the API as a user has it.
        found: writes that take effect nevertheless are added here.
    """

    def __init__(self, api: Api, randomness: random.Random, found: list[str]):
        self._api = api
        self._random = randomness
        self._found = found

    def overtake(self, call: ApiCall) -> bool:
        """Touch the object that the write is about; False if a write to it need not be refused after that."""
        touch = self._touches.get(call.resource)
        if touch is None or call.verb not in ("update", "patch", "delete", "evict"):
            return False
        try:
            return touch(self._api.get(call.resource, call.name, call.namespace))
        except NotFound:
            return False

    def took_effect(self, call: ApiCall) -> None:
        """Note that an overtaken write took effect, which is a fault."""
        self._found.append(f"{call} {call.namespace}/{call.name} took effect, though another writer was faster")

    @property
    def _touches(self) -> Mapping[Resource, Callable[[Object], bool]]:
        return {PODS: self._replace_pod, RESOURCE_CLAIMS: self._touch_claim, RESOURCE_SLICES: self._change_slice}

    def _replace_pod(self, pod: Object) -> bool:
        """As a StatefulSet does when its pod is gone."""
        metadata = {name: pod["metadata"][name] for name in _KEPT if name in pod["metadata"]}
        spec = {name: value for name, value in pod["spec"].items() if name not in _SET_BY_OTHERS}
        self._api.delete(PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0)
        self._api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return True

    def _touch_claim(self, claim: Object) -> bool:
        metadata = claim["metadata"]
        if self._random.random() < _DELETED and not is_deleting(claim):
            self._api.delete(RESOURCE_CLAIMS, metadata["name"], metadata["namespace"])
            return True
        changed = {"metadata": _mark(claim)}
        if controller_of(claim, "Pod"):
            # Only the controller among its owners counts, and it need not be the first.
            changed["metadata"]["ownerReferences"] = [_SOMEBODY, *_without(metadata["ownerReferences"], _SOMEBODY)]
        self._api.patch(RESOURCE_CLAIMS, metadata["name"], changed, namespace=metadata["namespace"])
        return True

    def _change_slice(self, part: Object) -> bool:
        self._api.patch(RESOURCE_SLICES, part["metadata"]["name"], {"metadata": _mark(part)})
        return True


def _mark(obj: Object) -> Object:
    """Metadata that no program looks at, others each time."""
    return {"annotations": {"example.com/rival": obj["metadata"]["resourceVersion"]}}


def _without(items: list[Object], one: Object) -> list[Object]:
    return [item for item in items if item != one]
