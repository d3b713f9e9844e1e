"""The Node and its slices as last observed. Thread-safe: reflectors feed it, the publisher reads and writes it."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from driver.kube.api import NODES, RESOURCE_SLICES, Object, Resource, Undecoded
from driver.kube.codec import decode_object, encode_object
from driver.kube.reflector import Delta, Missing, Removed, Restored, Synced, Unreadable, Upserted
from driver.wire.fields import integer, text, text_map
from kubeletplugin.inventory import runtime_of
from kubeletplugin.publish.other_drivers import OtherDevice, counts_in, devices_in

_LONGEST_PROBLEM: Final = 300
"""Characters of a problem: it may quote texts of others."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A slice as text, which takes less memory than the object. It is read only when slices are compared."""

    uid: str
    version: str
    generation: int
    text: bytes


class PoolView:
    """The Node and this node's slices as last observed, the publisher's own writes included."""

    def __init__(self, node_name: str, driver: str):
        self._node_name = node_name
        self._driver = driver
        self._lock = threading.Lock()
        self._synced: set[str] = set()
        self._node: Object | None = None
        self._identity: object = None
        """See ``_identity_of``."""
        self._slices: dict[str, _Stored] = {}
        self._others: dict[str, frozenset[OtherDevice]] = {}
        """The devices of cards in other drivers' slices of this node, by the slices' names."""
        self._unreadable: dict[tuple[Resource, str], str] = {}

    def observed(self) -> tuple[Object, Iterator[Object]] | None:
        """The Node and its slices; None until both are listed, and while the Node does not exist."""
        with self._lock:
            complete = self._synced >= {NODES.plural, RESOURCE_SLICES.plural}
            if not complete or self._node is None:
                return None
            return self._node, (decode_object(stored.text) for stored in list(self._slices.values()))

    def other_devices(self) -> frozenset[OtherDevice]:
        """The devices of cards that other drivers publish on this node."""
        with self._lock:
            return frozenset[OtherDevice]().union(*self._others.values())

    def unreadable(self) -> Mapping[tuple[Resource, str], str]:
        """The reason for each object that cannot be decoded, by kind and name."""
        with self._lock:
            return dict(self._unreadable)

    def generation(self) -> int:
        """The highest generation among the slices, 0 without slices."""
        with self._lock:
            return max((stored.generation for stored in self._slices.values()), default=0)

    def handle(self, delta: Delta) -> bool:
        """Apply a change; returns whether it matters for the slices.

        An object that cannot be decoded is in ``unreadable``, and changes nothing else: its last known state stays.
        """
        with self._lock:
            try:
                matters, problem = self._taken_in(delta), ""
            except Exception as error:  # noqa: BLE001 - whatever it is, one object must not end the thread that reads all
                matters, problem = False, repr(error)[:_LONGEST_PROBLEM]
            if isinstance(delta, Synced):
                self._unreadable = {
                    one: why
                    for one, why in self._unreadable.items()
                    if one[0] != delta.resource or one[1] in delta.keys
                }
            elif isinstance(delta, Upserted | Removed):
                self._unreadable.pop(one := (delta.resource, delta.object["metadata"]["name"]), None)
                if problem:
                    self._unreadable[one] = problem
            return matters

    def _taken_in(self, delta: Delta) -> bool:
        if isinstance(delta, Missing | Unreadable):
            return False
        if isinstance(delta, Restored):
            self._slices = {name: replace(item, version="0") for name, item in self._slices.items()}
            return False
        if isinstance(delta, Synced):
            self._synced.add(delta.resource.plural)
            if delta.resource == NODES and self._node_name not in delta.keys:
                self._set_node(None)
            elif delta.resource == RESOURCE_SLICES:
                self._slices = {name: item for name, item in self._slices.items() if name in delta.keys}
                self._others = {name: each for name, each in self._others.items() if name in delta.keys}
            return True
        if isinstance(delta.object, Undecoded) and not isinstance(delta, Removed):
            raise ValueError(delta.object.problem)
        if delta.resource == NODES:
            return self._set_node(None if isinstance(delta, Removed) else delta.object)
        if isinstance(delta, Removed):
            gone = self._remove(delta.object)
            return self._note(delta.object, there=False) or gone
        if delta.object["spec"].get("driver") != self._driver:
            return self._note(delta.object, there=True)
        return self._upsert(delta.object, delta.listed)

    def is_own(self, item: Object) -> bool:
        """Whether the slice is one of this driver on this node."""
        spec = item["spec"]
        return bool(spec.get("driver") == self._driver and spec.get("nodeName") == self._node_name)

    def store(self, item: Object) -> None:
        """Store a slice that was written, or read from the API."""
        with self._lock:
            self._slices[item["metadata"]["name"]] = _stored(item)

    def forget(self, name: str) -> None:
        """Drop a slice that does not exist, or belongs to another driver or node."""
        with self._lock:
            self._slices.pop(name, None)

    def _note(self, item: Object, *, there: bool) -> bool:
        """Note that another driver's slice exists or was deleted; returns whether devices of cards came or went with
        it."""
        name = item["metadata"]["name"]
        after = devices_in(item) if there else frozenset()
        before = self._others.pop(name, frozenset())
        if after:
            self._others[name] = after
        return after != before

    def _set_node(self, node: Object | None) -> bool:
        if node is not None:
            metadata = node["metadata"]
            node = {**node, "metadata": {**metadata, "labels": text_map(metadata.get("labels"))}}
        before, after = self._identity, _identity_of(node)
        self._node, self._identity = node, after
        return before != after

    def _upsert(self, item: Object, listed: str) -> bool:
        version, known = str(item["metadata"]["resourceVersion"]), self._slices.get(item["metadata"]["name"])
        if known is not None and not (_newer(version, known.version) or _went_back(version, known.version, listed)):
            return False
        self._slices[item["metadata"]["name"]] = _stored(item)
        return True

    def _remove(self, item: Object) -> bool:
        known = self._slices.get(item["metadata"]["name"])
        if known is None or known.uid != item["metadata"]["uid"]:
            return False
        del self._slices[item["metadata"]["name"]]
        return True


def _identity_of(node: Object | None) -> object:
    """The parts of the Node that slices depend on: uid, labels, container runtime, and how many devices the kubelet
    has.

    Raises:
        AttributeError, LookupError, TypeError: they cannot be decoded.
    """
    if node is None:
        return None
    return text(node["metadata"]["uid"]), node["metadata"]["labels"], runtime_of(node), counts_in(node)


def _stored(item: Object) -> _Stored:
    metadata = item["metadata"]
    return _Stored(metadata["uid"], str(metadata["resourceVersion"]), _generation(item), encode_object(item))


def _generation(item: Object) -> int:
    """The generation of a slice; 0 if it cannot be decoded, and so will be replaced (``slices.plan_writes``)."""
    try:
        return integer(item["spec"]["pool"].get("generation"))
    except (AttributeError, LookupError, TypeError):
        return 0


def _went_back(new: str, old: str, listed: str) -> bool:
    """Whether the API was restored from a backup: an earlier version of an object is in a later list."""
    return bool(listed) and _newer(old, new) and not _newer(old, listed)


def _newer(new: str, old: str) -> bool:
    # Versions of one kind of object are ordered integers (KEP-5504). An own write may be newer than the watch's event.
    return int(new) > int(old) if new.isdigit() and old.isdigit() else new != old
