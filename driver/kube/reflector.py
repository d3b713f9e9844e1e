"""Lists and watches one kind of object, and passes changes to a sink. It has no threads and no timers.

The owner calls ``step`` repeatedly: in a thread of a program, or under the control of a test. A watch may end at any
time. The reflector continues from the last version it received (bookmarks included), and lists again when the API says
that this version is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from driver.kube.api import Api, Gone, NotFound, Object, Resource, WatchEvent


@dataclass(frozen=True, slots=True)
class Synced:
    """A complete list: objects of this kind that are not in it do not exist."""

    resource: Resource
    objects: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Upserted:
    """An object was added or changed."""

    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True)
class Removed:
    """An object was deleted; ``object`` is its last state."""

    resource: Resource
    object: Object


Delta = Synced | Upserted | Removed
Sink = Callable[[Delta], None]


class Reflector:
    """Keeps one sink up to date with one kind of object.

    Args:
        watch_seconds: the requested duration of one watch.
        optional: if the API does not serve this kind, the sink gets an empty Synced and nothing more.
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
        optional: bool = False,
    ):
        self.resource = resource
        self._api = api
        self._sink = sink
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._watch_seconds = watch_seconds
        self._optional = optional
        self._version = ""
        self.synced = False
        """Whether the sink received at least one complete list."""

    @property
    def position(self) -> str:
        """The version to continue from; "" if the next step lists."""
        return self._version

    def step(self) -> None:
        """List if there is no version to continue from, else watch once until the API ends the watch.

        Raises:
            ApiError: the call failed; call ``step`` again after a pause.
        """
        if not self._version:
            try:
                self._list()
            except NotFound:
                if not self._optional:
                    raise
                self._sink(Synced(self.resource, ()))
                self.synced = True
            return
        try:
            for event in self._api.watch(
                self.resource,
                resource_version=self._version,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                timeout_seconds=self._watch_seconds,
            ):
                self._take(event)
        except Gone:
            self._version = ""

    def _take(self, event: WatchEvent) -> None:
        version: str = event.object["metadata"]["resourceVersion"]
        if event.type == "DELETED":
            self._sink(Removed(self.resource, event.object))
        elif event.type != "BOOKMARK":
            self._sink(Upserted(self.resource, event.object))
        self._version = version

    def _list(self) -> None:
        objects: list[Object] = []
        token = ""
        while True:
            page = self._api.list(
                self.resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                continue_token=token,
            )
            objects += page.items
            token = page.continue_token
            if not token:
                break
        self._sink(Synced(self.resource, tuple(objects)))
        self._version = page.resource_version
        self.synced = True
