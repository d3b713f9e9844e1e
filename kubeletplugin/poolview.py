"""What a publisher remembers between two looks: the published slices, its pace, and what the server drops. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from driver.kube.api import NODES, RESOURCE_SLICES, Object
from driver.kube.reflector import Delta, Removed, Synced
from driver.model import Slice
from driver.wire import slice_from
from kubeletplugin.slices import Wanted, dropped, same_content

FIRST_CONTEST_SECONDS = 0.2
LONGEST_CONTEST_SECONDS = 30.0
CALM_SECONDS = 60.0
"""Slices undone again within this time of being written are written again ever more slowly."""


class View:
    """The Node and this node's slices as last heard of, our own writes included."""

    def __init__(self, node_name: str):
        self._node_name = node_name
        self._synced: set[str] = set()
        self.node: Object | None = None
        self.slices: dict[str, Object] = {}

    @property
    def complete(self) -> bool:
        """Whether both the Node and the slices have been listed."""
        return self._synced >= {NODES.plural, RESOURCE_SLICES.plural}

    def take(self, delta: Delta) -> bool:
        """Whether anything changed that matters here."""
        if isinstance(delta, Synced):
            self._synced.add(delta.resource.plural)
            if delta.resource == NODES:
                self._take_node(next((o for o in delta.objects if o["metadata"]["name"] == self._node_name), None))
            else:
                self.slices = {item["metadata"]["name"]: item for item in delta.objects}
            return True
        if delta.resource == NODES:
            return self._take_node(None if isinstance(delta, Removed) else delta.object)
        return self._take_slice(delta.object, gone=isinstance(delta, Removed))

    def forget(self, name: str) -> None:
        """The slice is gone."""
        self.slices.pop(name, None)

    def _take_node(self, node: Object | None) -> bool:
        before, self.node = self.node, node
        return _identity(before) != _identity(node)

    def _take_slice(self, item: Object, *, gone: bool) -> bool:
        metadata = item["metadata"]
        known = self.slices.get(metadata["name"])
        if gone:
            same = known is not None and bool(known["metadata"]["uid"] == metadata["uid"])
            if same:
                del self.slices[metadata["name"]]
            return same
        if known is not None and not _newer(item, known):
            return False
        self.slices[metadata["name"]] = item
        return True


def _identity(node: Object | None) -> tuple[str, dict[str, str]] | None:
    return (node["metadata"]["uid"], node["metadata"].get("labels") or {}) if node else None


def _newer(item: Object, known: Object) -> bool:
    # Versions of one kind of object are ordered integers (KEP-5504); ours may be newer than the watch's.
    new, old = str(item["metadata"]["resourceVersion"]), str(known["metadata"]["resourceVersion"])
    return int(new) > int(old) if new.isdigit() and old.isdigit() else new != old


class Pace:
    """Slows down when the same slices have to be written again and again: somebody else wants something else."""

    def __init__(self) -> None:
        self.confirmed: Wanted | None = None
        """What was last seen published in full; None while a write is under way."""
        self._written = float("-inf")
        self._repeats = 0

    def wait(self, wanted: Wanted, now: float) -> float:
        """Seconds still to wait before writing; 0 counts as a write."""
        if wanted != self.confirmed or now - self._written > CALM_SECONDS:
            self._repeats = 0
        else:
            pause = min(LONGEST_CONTEST_SECONDS, FIRST_CONTEST_SECONDS * 2.0 ** min(self._repeats, 16))
            if self._written + pause > now:
                return self._written + pause - now
            self._repeats += 1
        self._written, self.confirmed = now, None
        return 0.0


class DroppedFields:
    """What the API server does not store of what we send: reported once, then taken as wanted.

    Known only to this instance: after a restart the full slices are sent once more, so that a gate switched on
    meanwhile takes effect.
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._instead: dict[str, tuple[Slice, Slice]] = {}
        self.counters = False
        """Whether counters were dropped, which alone keep the kinds of a card apart."""

    def adopt(self, slices: Iterable[Slice]) -> tuple[Slice, ...]:
        """``slices`` as the server will store them, as far as known."""
        adopted = []
        for part in slices:
            sent, stored = self._instead.get(part.name, (None, part))
            adopted.append(stored if sent is not None and same_content(sent, part) else part)
        return tuple(adopted)

    def compare(self, sent: Object, stored: Object) -> tuple[str, ...]:
        """Take note of what was dropped; the kinds of field not reported before."""
        asked, got = slice_from(sent), slice_from(stored)
        if same_content(asked, got):
            return ()
        fields = set(dropped(sent["spec"], stored["spec"])) or {"(a value was changed)"}
        new = tuple(sorted(fields - self._reported))
        self._reported |= fields
        self._instead[asked.name] = (replace(asked, generation=0), replace(got, generation=0))
        self.counters = self.counters or any(field.endswith(("sharedCounters", "consumesCounters")) for field in fields)
        return new
