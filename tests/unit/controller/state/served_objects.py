"""An API server whose objects a state is told of."""

import copy
from typing import Any

from controller.allocation import Fleet
from controller.state import Changes, State
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Removed, Restored, Synced, Upserted
from tests.unit.controller.filled_state import (
    NAMES,
    device_class,
    node,
    slice_on,
)

KINDS = (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES)


NODE_NAMES = ("n1", "n2")


class ServedObjects:
    """Objects with versions, as an API server has them, and everything it ever said."""

    def __init__(self) -> None:
        self.objects: dict[Any, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.said: list[tuple[Any, Object]] = []
        self.ended: list[Removed] = []
        """Deletions that no watch has told of yet."""
        self._version = 0

    def write(self, kind: Any, obj: Object, uid: str = "") -> Upserted:
        key = obj["metadata"]["name"]
        known = self.objects[kind].get(key)
        uid = uid or (known["metadata"]["uid"] if known else f"uid-{key}")
        self._version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "uid": uid, "resourceVersion": str(self._version)}}
        self.objects[kind][key] = obj
        self.said.append((kind, obj))
        return Upserted(kind, obj)

    def remove(self, kind: Any, obj: Object) -> Removed | None:
        gone = copy.deepcopy(self.objects[kind].pop(obj["metadata"]["name"], None))
        if gone is None:
            return None
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        return Removed(kind, gone)

    def replace(self, kind: Any, obj: Object) -> Upserted:
        """Deleted and made anew, and the watch that broke in between never told of the first."""
        if gone := self.remove(kind, obj):
            self.ended.append(gone)
        return self.write(kind, obj, uid=f"uid-{self._version}")

    def listed(self, kind: Any) -> list[Delta]:
        """What a reflector reports of a list."""
        found = self.objects[kind].values()
        keys = frozenset(object_key(obj) for obj in found)
        return [*(Upserted(kind, obj, self.version) for obj in found), Synced(kind, keys, self.version)]

    @property
    def version(self) -> str:
        """Of a list."""
        return str(self._version)

    def restore(self, backup: "ServedObjects", bump: int) -> list[Delta]:
        """Go back to a backup, as ``etcdutl snapshot restore --bump-revision`` does; what reflectors report of it."""
        self.objects = copy.deepcopy(backup.objects)
        self.said, self.ended = [], []
        before, self._version = self._version, backup._version + bump
        went_back: list[Delta] = [Restored(kind) for kind in KINDS if self._version < before]
        return [*went_back, *(delta for kind in KINDS for delta in self.listed(kind))]


def report(state: State, *deltas: Delta) -> list[Changes]:
    return [state.apply(state.decode(delta)) for delta in deltas]


def furnished() -> tuple[ServedObjects, State]:
    """A cluster in which pods can be placed, so that most steps change an answer."""
    server, state = ServedObjects(), State(Fleet(), NAMES)
    report(state, server.write(DEVICE_CLASSES, device_class("gpu.lode.dev", 'device.driver == "lode.dev"')))
    for name in NODE_NAMES:
        report(state, server.write(NODES, node(name)), server.write(RESOURCE_SLICES, slice_on(name)))
    return server, state
