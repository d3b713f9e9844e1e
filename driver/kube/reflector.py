"""Lists and watches one kind of object, and passes changes to a sink. It has no threads and no timers.

A list is read page by page, and each object goes to the sink as soon as its page is read. So no list is ever held
whole. The sink may keep what it needs of an object and drop the rest.

The owner calls ``step`` repeatedly: in a thread of a program, or under the control of a test. A watch may end at any
time. The reflector continues from the last version it received (bookmarks included), and lists again when the API says
that this version is gone.

It also lists again when the API was out of reach for a while. The API servers may have been stopped to restore etcd
from a backup, and then versions go back: a watch from the last version delivers nothing until as much is written anew.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from driver.kube.api import (
    RESOURCE_SLICES,
    Api,
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Object,
    Resource,
    Unavailable,
    WatchEvent,
)
from driver.kube.objects import object_key

MISSING_LISTS = 5
"""The number of lists in a row without the kind, once it was served, before its objects count as gone: an API server
that starts may not serve every kind at once."""
PAGE_SIZE = 100
"""Objects of one page of a list, which is held whole."""
_PAGE_SIZES: Final = {RESOURCE_SLICES: 20}
"""Kinds with large objects have smaller pages: a slice has up to 128 devices and some 100 kB of JSON."""
OUTAGE_SECONDS = 5.0
"""An API that could not be watched, and has told nothing for so long, may have been restored from a backup meanwhile.
Nobody stops the API servers, restores etcd and starts them in less time; a broken connection is opened sooner."""


@dataclass(frozen=True, slots=True)
class Synced:
    """A list is complete: every object in it was reported as Upserted before.

    Objects of this kind that are not in it did not exist at its version.
    """

    resource: Resource
    keys: frozenset[str]
    """``driver.kube.objects.object_key`` of every object in the list."""
    version: str
    """The resource version at which the whole list was read."""


@dataclass(frozen=True, slots=True)
class Upserted:
    """An object was listed, added or changed."""

    resource: Resource
    object: Object
    listed: str = ""
    """The resource version of its list; "" from a watch. An earlier version of an object in a later list means that the
    API was restored from a backup."""


@dataclass(frozen=True, slots=True)
class Removed:
    """An object was deleted; ``object`` is its last state."""

    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True)
class Missing:
    """The API does not serve this optional kind, or does so no longer: there are no objects of it."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The API does not let this optional kind be read: nothing new is known about it."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class Restored:
    """The versions of this kind went back, or may have: the API was restored from a backup. A list follows.

    The objects of that list, and of all that is answered from now on, are newer than all before.
    """

    resource: Resource


Delta = Synced | Upserted | Removed | Missing | Unreadable | Restored
Sink = Callable[[Delta], None]


class Reflector:
    """Keeps one sink up to date with one kind of object.

    Args:
        optional: the kind may be missing, or forbidden: then the sink gets ``Missing``, or ``Unreadable``.
        now: the time in seconds, of any epoch; without it, no outage is noticed.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        sink: Sink,
        *,
        field_selector: str = "",
        optional: bool = False,
        now: Callable[[], float] = lambda: 0.0,
    ):
        self.resource = resource
        self._api = api
        self._sink = sink
        self._field_selector = field_selector
        self._page_size = _PAGE_SIZES.get(resource, PAGE_SIZE)
        self._optional = optional
        self._now = now
        self.heard = now()
        """When the API last told of this kind: a page of a list, a change, or a bookmark, which come every minute."""
        self._version = ""
        self._highest = 0
        """The highest version that was reported."""
        self._known = False
        """True if the sink may know objects of the kind."""
        self._missing = 0
        self._lost = False
        """True if the API could not be reached since the last call that succeeded."""
        self.synced = False
        """True if the sink received at least one complete list, or notice that there is none to wait for."""
        self.error: ApiError | None = None
        """The reason why the sink may be out of date; None while a watch is open, or after a call that succeeded."""
        self.forbidden: Forbidden | None = None
        """The last error, if a right is missing. For an optional kind, ``error`` has none."""

    @property
    def position(self) -> str:
        """The version to continue from; "" if the next step lists."""
        return self._version

    def step(self) -> None:
        """List if there is no version to continue from, else watch once until the API ends the watch.

        Raises:
            ApiError: the call failed; call ``step`` again after a pause.
        """
        try:
            self._step()
        except ApiError as error:
            # Who says that there are too many requests was there all along: a list would be one more, and a dear one.
            self._lost = self._lost or (isinstance(error, Unavailable) and error.status != 429)
            self.forbidden = error if isinstance(error, Forbidden) else None
            self.error = None if self._optional and self.forbidden else error
            raise

    def _step(self) -> None:
        if self._lost and self._now() - self.heard >= OUTAGE_SECONDS:
            # Said before the list is read: a write that is answered later must not count as older than that list.
            self._went_back()
        if not self._version:
            try:
                self._list()
            except NotFound:
                self._missing += 1
                if not self._optional or (self._known and self._missing < MISSING_LISTS):
                    raise
                self._sink(Missing(self.resource))
                self._known, self.synced, self.heard = False, True, self._now()
            except Forbidden:
                if self._optional:
                    self._sink(Unreadable(self.resource))
                    self.synced, self.heard = True, self._now()
                raise
            self._in_contact()
            return
        try:
            events = self._api.watch(self.resource, resource_version=self._version, field_selector=self._field_selector)
            self._in_contact()
            deque(map(self._take, events), maxlen=0)  # a loop would keep the last event until the next one comes
        except (Gone, NotFound):
            # The kind is served no longer, or was made anew: only a list can tell.
            self._version = ""

    def _went_back(self) -> None:
        if self._known:
            self._sink(Restored(self.resource))
        self._version, self._highest = "", 0

    def _in_contact(self) -> None:
        self.error = self.forbidden = None
        self._lost = False

    def _take(self, event: WatchEvent) -> None:
        self.heard = self._now()
        if event.type == "DELETED":
            self._sink(Removed(self.resource, event.object))
        elif event.type != "BOOKMARK":
            self._sink(Upserted(self.resource, event.object))
        # An object that cannot be decoded may have no version: the next event has one.
        self._version = event.object["metadata"].get("resourceVersion") or self._version
        self._highest = max(self._highest, _number(self._version))

    def _list(self) -> None:
        """List all pages. A list that breaks off begins anew: the objects reported exist, but there may be others."""
        keys: set[str] = set()
        token = ""
        while True:
            page = self._api.list(
                self.resource, field_selector=self._field_selector, limit=self._page_size, continue_token=token
            )
            self.heard = self._now()
            if _number(page.resource_version) < self._highest:
                self._went_back()
            self._known, self._missing = True, 0
            for obj in page.items:
                keys.add(object_key(obj))
                self._sink(Upserted(self.resource, obj, page.resource_version))
            token, version = page.continue_token, page.resource_version
            if not token:
                break
        self._sink(Synced(self.resource, frozenset(keys), version))
        self._version = version
        self._highest = max(self._highest, _number(version))
        self.synced = True


def _number(version: str) -> int:
    """Versions of one kind are integers that grow with every write (KEP-5504)."""
    return int(version) if version.isdecimal() else 0
