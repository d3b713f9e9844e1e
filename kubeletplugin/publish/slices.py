"""Builds ResourceSlices for devices and counter sets, and plans the fewest writes that lead to them. Pure.

Rules of a pool (resource.k8s.io/v1 ResourcePool): consumers use only the slices of the highest generation, and only if
their number is the ``resourceSliceCount`` of each. So a change that takes several writes gets a new generation, which
consumers ignore until its last slice exists. A slice has devices or counter sets, never both.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driver.errors import SENSELESS, InvalidInput
from driver.limits import MAX_COUNTER_SETS, MAX_DEVICES, MAX_DEVICES_RESTRICTED, MAX_DNS_SUBDOMAIN
from driver.model import CounterSet, Device, NodeScope, Slice, Taint
from driver.names import Names
from driver.wire import Json, slice_from, slice_spec_to

API_VERSION = "resource.k8s.io/v1"

_UID_LETTERS = 8
"""Characters of a Node's uid that tell nodes apart whose names are too long."""


@dataclass(frozen=True, slots=True)
class DesiredPool:
    """The pool of one node as it should be. Generations in ``slices`` are ignored: ``plan_writes`` sets them."""

    node_name: str
    node_uid: str
    slices: tuple[Slice, ...]

    @property
    def digest(self) -> str:
        """Equal pools have equal digests, within one run of the program."""
        digest = hashlib.sha256(repr((self.node_name, self.node_uid, len(self.slices))).encode())
        for part in self.slices:
            for piece in (replace(part, devices=()), *part.devices):  # the text of all would take much memory
                digest.update(repr(piece).encode())
        return digest.hexdigest()

    @property
    def owner(self) -> Json:
        """The owner reference to the Node, with which the slices are deleted."""
        return {"apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": self.node_uid, "controller": True}


@dataclass(frozen=True, slots=True)
class _Write:
    slice: Slice
    rest: Json
    """The object without its spec."""

    @property
    def name(self) -> str:
        """The name of the slice."""
        return self.slice.name

    @property
    def object(self) -> Json:
        """The object to send. It is built when needed, so that only one object at a time takes memory."""
        return {**self.rest, "spec": slice_spec_to(self.slice)}


class Create(_Write):
    """POST ``object``."""


class Update(_Write):
    """PUT ``object``, with the resourceVersion that the decision is based on."""


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE exactly this slice."""

    name: str
    uid: str
    resource_version: str


Action = Create | Update | Delete


def build_slices(
    devices: Sequence[Device], counter_sets: Sequence[CounterSet], node_name: str, names: Names, node_uid: str = ""
) -> tuple[Slice, ...]:
    """The slices of a node's pool, at least one: a pool without devices has one empty slice ("driver up, no devices").

    Slice names depend only on the node and the position. They sort in the order of the devices, in which allocators try
    them.

    Args:
        node_uid: the uid of the Node; only names of slices of nodes with very long names have it.
    """
    restricted = any(device.consumes or device.taints or _has_lists(device) for device in devices)
    device_parts = list(_batches(devices, MAX_DEVICES_RESTRICTED if restricted else MAX_DEVICES)) or [()]
    counter_parts = list(_batches(counter_sets, MAX_COUNTER_SETS))
    blank = Slice(
        name="",
        driver=names.driver,
        pool=names.pool(node_name),
        generation=0,
        slice_count=len(device_parts) + len(counter_parts),
        scope=NodeScope(node_name=node_name),
    )
    head = slice_prefix(node_name, node_uid, names.driver)
    return (
        *(replace(blank, name=f"{head}counters-{i:03d}", counter_sets=part) for i, part in enumerate(counter_parts)),
        *(replace(blank, name=f"{head}devices-{i:03d}", devices=part) for i, part in enumerate(device_parts)),
    )


def slice_prefix(node_name: str, node_uid: str, driver: str) -> str:
    """``<node>-<driver>-``, with which the names of a node's slices begin, each a DNS subdomain.

    Of a node name that is too long, the end is replaced by ``x`` and the beginning of the Node's uid. The policy
    own-slices.<driver> admits these names only; it knows the uid from the plugin's token.
    """
    room = MAX_DNS_SUBDOMAIN - len(f"-{driver}-counters-000")
    if len(node_name) > room:
        end = f"x{node_uid[:_UID_LETTERS]}"
        node_name = node_name[: room - _UID_LETTERS - 1] + end
    return f"{node_name}-{driver}-"


def _batches(items: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    yield from (tuple(items[start : start + size]) for start in range(0, len(items), size))


def _has_lists(device: Device) -> bool:
    return any(isinstance(value, tuple) for value in device.attributes.values())


@dataclass(frozen=True, slots=True)
class _Published:
    object: Json
    """The published object without its spec."""
    slice: Slice
    owners: tuple[Json, ...]
    """Its owner references."""


def plan_writes(desired: DesiredPool, published: Iterable[Json]) -> tuple[Action, ...]:
    """The writes, in order, that turn ``published`` (all slices of this driver and node) into ``desired``.

    Obsolete slices are deleted, then existing ones updated, then missing ones created. After any of the writes the pool
    is as it was, as it should be, or visibly incomplete; planning again continues from there. The generation stays the
    same if consumers cannot mistake a state in between for a complete pool:

    - exactly one slice changes and none is added or removed, or
    - every slice of the highest generation is as it should be, and only others must be added (after a crash during the
      writes, or after the kubelet deleted slices).

    A slice that cannot be decoded is deleted, and may have had the highest generation.
    """
    read = [_read(item) for item in published]
    existing = [item for item in read if isinstance(item, _Published)]
    unreadable = [item for item in read if isinstance(item, Delete)]
    by_name = {part.name: part for part in desired.slices}
    names_kept = {
        item.slice.name
        for item in existing
        if item.slice.name in by_name and _same_pool(item.slice, by_name[item.slice.name])
    }
    kept = [item for item in existing if item.slice.name in names_kept]
    obsolete = [item for item in existing if item.slice.name not in names_kept]
    missing = [part for part in desired.slices if part.name not in names_kept]
    generation = _generation(by_name, kept, obsolete, missing) + bool(unreadable)
    return (
        *unreadable,
        *(_deletion(item.object) for item in sorted(obsolete, key=lambda item: item.slice.name)),
        *_updates(desired, by_name, kept, generation),
        *(_created(desired, replace(part, generation=generation)) for part in missing),
    )


def _read(item: Json) -> _Published | Delete:
    """The published slice; how to delete it if it cannot be decoded."""
    rest = {key: item[key] for key in item.keys() - {"spec"}}
    try:
        owners = tuple([{**owner} for owner in item["metadata"].get("ownerReferences") or ()])
        return _Published(rest, slice_from(item), owners)
    except (InvalidInput, *SENSELESS):
        return _deletion(rest)


def _generation(
    by_name: Mapping[str, Slice], kept: list[_Published], obsolete: list[_Published], missing: list[Slice]
) -> int:
    pool = {part.pool for part in by_name.values()}
    top = max((item.slice.generation for item in [*kept, *obsolete] if item.slice.pool in pool), default=0)
    removed = any(item.slice.generation == top and item.slice.pool in pool for item in obsolete)
    behind = any(item.slice.generation < top for item in kept)
    changed = sum(
        not same_content(item.slice, by_name[item.slice.name]) for item in kept if item.slice.generation == top
    )
    alone = changed == 1 and not missing and not behind
    return max(top, 1) if not removed and (changed == 0 or alone) else top + 1


def _updates(
    desired: DesiredPool, by_name: Mapping[str, Slice], kept: list[_Published], generation: int
) -> Iterator[Update]:
    for item in sorted(kept, key=lambda item: item.slice.name):
        part = by_name[item.slice.name]
        right = item.slice.generation == generation and same_content(item.slice, part)
        if not right or desired.owner not in item.owners:
            yield _updated(desired, replace(part, generation=generation), item)


def same_content(one: Slice, other: Slice) -> bool:
    """Whether both have the same content: quantities by value, without generation and the time of taints."""
    return _content(one) == _content(other)


def _content(part: Slice) -> Slice:
    return replace(part, generation=0, devices=tuple(_undated(device) for device in part.devices))


def _undated(device: Device) -> Device:
    return replace(device, taints=tuple(replace(t, time_added="") for t in device.taints)) if device.taints else device


def _same_pool(one: Slice, other: Slice) -> bool:
    # driver, pool name and nodeName are immutable (ResourceSliceSpec): such a slice must be deleted and created.
    return (one.driver, one.pool, one.scope) == (other.driver, other.pool, other.scope)


def _deletion(item: Json) -> Delete:
    metadata = item["metadata"]
    return Delete(metadata["name"], metadata["uid"], metadata["resourceVersion"])


def _created(desired: DesiredPool, part: Slice) -> Create:
    metadata = {"name": part.name, "ownerReferences": [desired.owner]}
    return Create(part, {"apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": metadata})


def _updated(desired: DesiredPool, part: Slice, item: _Published) -> Update:
    others = [ref for ref in item.owners if not ref.get("controller") and ref.get("kind") != "Node"]
    metadata = {**item.object["metadata"], "ownerReferences": [desired.owner, *others]}
    metadata.pop("managedFields", None)
    dated = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for device in item.slice.devices
        for taint in device.taints
    }

    def date(device: Device) -> Device:
        def keep(taint: Taint) -> Taint:
            return replace(taint, time_added=dated.get((device.name, taint.key, taint.value, taint.effect), ""))

        return replace(device, taints=tuple(keep(taint) for taint in device.taints))

    whole = replace(part, devices=tuple(date(device) for device in part.devices))
    return Update(whole, {**item.object, "metadata": metadata})
