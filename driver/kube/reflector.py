"""Lists and watches one kind of object, and passes changes to a sink. It has no threads and no timers.

A list is read page by page, and each object goes to the sink as soon as its page is read. So no list is ever held
whole. The sink may keep what it needs of an object and drop the rest.

The owner calls ``step`` repeatedly: in a thread of a program, or under the control of a test. A watch may end at any
time. The reflector continues from the last version it received (bookmarks included), and lists again when the API says
that this version is gone.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from driver.kube.api import Api, ApiError, Forbidden, Gone, NotFound, Object, Resource, WatchEvent
from driver.kube.objects import object_key

PAGE_SIZE = 100
"""Objects of one page of a list. Kinds with large objects need smaller pages: a page is held whole."""


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


@dataclass(frozen=True, slots=True)
class Removed:
    """An object was deleted; ``object`` is its last state."""

    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The API does not serve this optional kind, or does not let it be read: nothing is known about it."""

    resource: Resource


Delta = Synced | Upserted | Removed | Unreadable
Sink = Callable[[Delta], None]


class Reflector:
    """Keeps one sink up to date with one kind of object.

    Args:
        watch_seconds: the requested duration of one watch.
        page_size: the most objects of one page of a list.
        optional: the kind may be missing, or forbidden: then the sink gets ``Unreadable``.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        sink: Sink,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        watch_seconds: int = 300,
        page_size: int = PAGE_SIZE,
        optional: bool = False,
    ):
        self.resource = resource
        self._api = api
        self._sink = sink
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._watch_seconds = watch_seconds
        self._page_size = page_size
        self._optional = optional
        self._version = ""
        self.synced = False
        """Whether the sink received at least one complete list, or that there is none to wait for."""
        self.error: ApiError | None = None
        """Why the sink may be out of date; None while a watch is open, and between two calls that succeeded."""

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
            # The owner knows of what is optional and forbidden, and does without it.
            self.error = None if self._optional and isinstance(error, Forbidden) else error
            raise

    def _step(self) -> None:
        if not self._version:
            try:
                self._list()
            except (NotFound, Forbidden) as error:
                if not self._optional:
                    raise
                self._sink(Unreadable(self.resource))
                self.synced = True
                if isinstance(error, Forbidden):
                    raise
            self.error = None
            return
        try:
            events = self._api.watch(
                self.resource,
                resource_version=self._version,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                timeout_seconds=self._watch_seconds,
            )
            self.error = None
            deque(map(self._take, events), maxlen=0)  # a loop would keep the last event until the next one comes
        except Gone:
            self._version = ""

    def _take(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self._sink(Removed(self.resource, event.object))
        elif event.type != "BOOKMARK":
            self._sink(Upserted(self.resource, event.object))
        # An object that cannot be decoded may have no version: the next event has one.
        self._version = event.object["metadata"].get("resourceVersion") or self._version

    def _list(self) -> None:
        """A list that breaks off is begun anew: what it has reported exists, but nothing is known to be complete."""
        keys: set[str] = set()
        token = ""
        while True:
            page = self._api.list(
                self.resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                limit=self._page_size,
                continue_token=token,
            )
            for obj in page.items:
                keys.add(object_key(obj))
                self._sink(Upserted(self.resource, obj))
            token, version = page.continue_token, page.resource_version
            if not token:
                break
        self._sink(Synced(self.resource, frozenset(keys), version))
        self._version = version
        self.synced = True
