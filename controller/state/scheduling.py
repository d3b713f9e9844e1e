"""Handlers of objects that are read only to choose nodes: namespaces, volumes and their classes. Pure."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from controller.placement import Nodes, VolumeClaim
from controller.state.changes import Changes
from controller.state.pods import PodView
from driver.kube.api import Object
from driver.wire.fields import text, text_map

V = TypeVar("V")

Namespace = tuple[str, Mapping[str, str]]
"""A namespace's name and labels."""


def namespace_from(obj: Object) -> Namespace:
    """Return the name and the labels of a Namespace object."""
    return text(obj["metadata"]["name"]), text_map(obj["metadata"].get("labels"))


class NamespaceHandler:
    """Namespaces: their labels, which terms of pods may select."""

    def __init__(self, nodes: Nodes):
        self._nodes = nodes

    def on_update(self, namespace: Namespace, changes: Changes) -> None:
        """See ``Handler``."""
        self._put(*namespace, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._put(key, None, changes)

    def _put(self, name: str, labels: Mapping[str, str] | None, changes: Changes) -> None:
        if self._nodes.pods.put_namespace(name, labels):
            self._nodes.generation += 1
            changes.favour("")


class PodsWithVolumes:
    """The pods without a node that use claims for volumes, by claim."""

    def __init__(self) -> None:
        self._by_claim: dict[str, dict[str, None]] = {}
        self._claims_of: dict[str, tuple[str, ...]] = {}

    def upsert(self, pod: PodView) -> None:
        """Add or replace a pod."""
        self.remove(pod.key)
        if pod.needs.volumes and not pod.node_name:
            self._claims_of[pod.key] = tuple(use.claim for use in pod.needs.volumes)
            for claim in self._claims_of[pod.key]:
                self._by_claim.setdefault(claim, {})[pod.key] = None

    def remove(self, key: str) -> None:
        """Remove a pod."""
        for claim in self._claims_of.pop(key, ()):
            users = self._by_claim.get(claim, {})
            users.pop(key, None)
            if not users:
                self._by_claim.pop(claim, None)

    def using(self, claim: str = "") -> tuple[str, ...]:
        """Return the keys of the pods that use the claim (namespace/name); of all pods that use any if it is ""."""
        return tuple(self._by_claim.get(claim, ()) if claim else self._claims_of)


class VolumeHandler(Generic[V]):
    """Volumes, storage classes, or limits of nodes: every pod that waits with volumes is decided anew."""

    def __init__(self, nodes: Nodes, waiting: PodsWithVolumes, put: Callable[[V], bool], remove: Callable[[str], bool]):
        self._nodes = nodes
        self._waiting = waiting
        self._put = put
        self._remove = remove

    def on_update(self, value: V, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._put(value), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._remove(key), changes)

    def _note(self, changed: bool, changes: Changes) -> None:
        if changed:
            self._nodes.generation += 1
            changes.pods.update(dict.fromkeys(self._waiting.using()))


class VolumeClaimHandler:
    """Claims for volumes: the pods that use them are decided anew."""

    def __init__(self, nodes: Nodes, waiting: PodsWithVolumes):
        self._nodes = nodes
        self._waiting = waiting

    def on_update(self, claim: VolumeClaim, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._nodes.storage.put_claim(claim), claim.key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._note(self._nodes.storage.remove_claim(key), key, changes)

    def _note(self, changed: bool, key: str, changes: Changes) -> None:
        if changed:
            self._nodes.generation += 1
            changes.pods.update(dict.fromkeys(self._waiting.using(key)))
