"""The Node and its slices as last observed. Thread-safe: reflectors feed it, the publisher reads and writes it."""

import threading

from driver.kube.api import NODES, RESOURCE_SLICES, Object
from driver.kube.reflector import Delta, Removed, Synced, Unreadable
from kubeletplugin.publish.other_drivers import serving


class PoolView:
    """The Node and this node's slices as last observed, the publisher's own writes included."""

    def __init__(self, node_name: str, driver: str):
        self._node_name = node_name
        self._driver = driver
        self._lock = threading.Lock()
        self._synced: set[str] = set()
        self._node: Object | None = None
        self._slices: dict[str, Object] = {}
        self._others: dict[str, str] = {}
        """The drivers of other drivers' slices of this node, by the slices' names."""

    def observed(self) -> tuple[Object, list[Object]] | None:
        """The Node and its slices; None until both are listed, and while the Node does not exist."""
        with self._lock:
            complete = self._synced >= {NODES.plural, RESOURCE_SLICES.plural}
            return (self._node, list(self._slices.values())) if complete and self._node is not None else None

    def other_drivers(self) -> frozenset[str]:
        """The names of the other drivers that publish devices of this node."""
        with self._lock:
            return frozenset(self._others.values())

    def generation(self) -> int:
        """The highest generation among the slices, 0 without slices."""
        with self._lock:
            return max((item["spec"]["pool"].get("generation", 0) for item in self._slices.values()), default=0)

    def handle(self, delta: Delta) -> bool:
        """Apply a change; False if it changes nothing that slices depend on."""
        with self._lock:
            if isinstance(delta, Unreadable):
                return False
            if isinstance(delta, Synced):
                self._synced.add(delta.resource.plural)
                if delta.resource == NODES and self._node_name not in delta.keys:
                    self._set_node(None)
                elif delta.resource == RESOURCE_SLICES:
                    self._slices = {name: item for name, item in self._slices.items() if name in delta.keys}
                    self._others = {name: driver for name, driver in self._others.items() if name in delta.keys}
                return True
            if delta.resource == NODES:
                return self._set_node(None if isinstance(delta, Removed) else delta.object)
            if delta.object["spec"].get("driver") != self._driver:
                return self._note(delta.object, there=not isinstance(delta, Removed))
            return self._remove(delta.object) if isinstance(delta, Removed) else self._upsert(delta.object)

    def put(self, item: Object) -> None:
        """The slice was written, or read from the API."""
        with self._lock:
            self._slices[item["metadata"]["name"]] = item

    def forget(self, name: str) -> None:
        """The slice does not exist, or belongs to another driver or node."""
        with self._lock:
            self._slices.pop(name, None)

    def _note(self, item: Object, *, there: bool) -> bool:
        """Another driver's slice is there, or was deleted; whether other drivers came or went with it."""
        before = set(self._others.values())
        self._others.pop(item["metadata"]["name"], None)
        if there:
            self._others[item["metadata"]["name"]] = item["spec"].get("driver", "")
        return set(self._others.values()) != before

    def _set_node(self, node: Object | None) -> bool:
        before, self._node = self._node, node
        return _identity(before) != _identity(node)

    def _upsert(self, item: Object) -> bool:
        known = self._slices.get(item["metadata"]["name"])
        if known is not None and not _newer(item, known):
            return False
        self._slices[item["metadata"]["name"]] = item
        return True

    def _remove(self, item: Object) -> bool:
        known = self._slices.get(item["metadata"]["name"])
        if known is None or known["metadata"]["uid"] != item["metadata"]["uid"]:
            return False
        del self._slices[item["metadata"]["name"]]
        return True


def _identity(node: Object | None) -> object:
    """What slices depend on: uid, labels, and who else serves the cards."""
    return (node["metadata"]["uid"], node["metadata"].get("labels") or {}, serving(node, ())) if node else None


def _newer(item: Object, known: Object) -> bool:
    # Versions of one kind of object are ordered integers (KEP-5504). An own write may be newer than the watch's event.
    new, old = str(item["metadata"]["resourceVersion"]), str(known["metadata"]["resourceVersion"])
    return int(new) > int(old) if new.isdigit() and old.isdigit() else new != old
