"""Programs that may die, stall, or be overtaken by another between any two calls to the world outside of them."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import EVENTS, LEASES, Api, ApiError, Object, Page, PatchType, Resource, WatchEvent
from simulation.clock import VirtualClock
from simulation.faults import Crash

T = TypeVar("T")


class Process:
    """One run of one program. Whatever it does outside goes through ``call``, which may be its end.

    Args:
        before: what happens before each call: another program may run, or this one may be told to die.
    """

    def __init__(self, name: str, before: Callable[["Process"], None]):
        self.name = name
        self.alive = True
        self._before = before

    def call(self) -> None:
        """Announce a call.

        Raises:
            Crash: the process is dead, and so is whoever still acts for it.
        """
        if self.alive:
            self._before(self)
        if not self.alive:
            raise Crash(self.name)


class Diary:
    """The last things that happened, and how often each kind of object was written."""

    def __init__(self, clock: Clock, length: int = 400):
        self._clock = clock
        self._entries: deque[str] = deque(maxlen=length)
        self.writes: dict[Resource, int] = defaultdict(int)
        self.written = 0
        """How many writes there were of anything but Leases and Events."""
        self.last_change = 0.0
        """When an object other than a Lease or an Event was written last, in seconds of ``Clock.monotonic``."""

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        self._entries.append(f"{self._clock.monotonic():9.3f} {who:<22} {what}")

    def wrote(self, resource: Resource) -> None:
        """Count a write, whether it is known to have taken place or not."""
        self.writes[resource] += 1
        if resource not in (LEASES, EVENTS):
            self.written += 1
            self.last_change = self._clock.monotonic()

    def last(self, count: int) -> list[str]:
        """The last lines."""
        return list(self._entries)[-count:]


class DiaryLog:
    """A logger whose lines go to a diary."""

    def __init__(self, diary: Diary, who: str):
        self._diary = diary
        self._who = who

    def bind(self, **_: Any) -> "DiaryLog":
        """The same log."""
        return self

    def _say(self, event: str, **fields: Any) -> None:
        self._diary.note(self._who, " ".join([event, *(f"{key}={value}" for key, value in fields.items())])[:400])

    debug = info = warning = error = exception = _say


class ProcessClock:
    """The cluster's clock as one process has it: while it sleeps, others may run."""

    def __init__(self, clock: VirtualClock, process: Process):
        self._process = process
        self._clock = clock
        self.now = clock.now
        self.monotonic = clock.monotonic

    def sleep(self, seconds: float) -> None:
        """Move the cluster's time on."""
        self._process.call()
        self._clock.advance(seconds)
        self._process.call()


class ProcessFiles:
    """A machine's files as one process has them."""

    def __init__(self, files: Files, process: Process):
        self._files = files
        self._process = process

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        self._process.call()
        return self._files.read(path)

    def write(self, path: str, data: bytes) -> None:
        """Replace the content."""
        self._process.call()
        self._files.write(path, data)

    def remove(self, path: str) -> None:
        """Remove the file."""
        self._process.call()
        self._files.remove(path)

    def names(self, directory: str) -> list[str]:
        """Names of the files in ``directory``."""
        self._process.call()
        return self._files.names(directory)

    def sweep(self, directory: str, prefix: str = "") -> None:
        """Remove unfinished files."""
        self._process.call()
        self._files.sweep(directory, prefix)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Exclusive while held; let go when the process dies."""
        self._process.call()
        with self._files.lock(path):
            yield


class ProcessApi:
    """An ``Api`` as one process has it; every write is in the diary."""

    def __init__(self, api: Api, process: Process, diary: Diary):
        self._api = api
        self._process = process
        self._diary = diary

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object."""
        self._process.call()
        return self._api.get(resource, name, namespace)

    def list(self, resource: Resource, **options: Any) -> Page:
        """One page."""
        self._process.call()
        return self._api.list(resource, **options)

    def watch(self, resource: Resource, **options: Any) -> Iterator[WatchEvent]:
        """Changes."""
        self._process.call()
        return self._api.watch(resource, **options)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """The stored object."""
        metadata = obj["metadata"]
        what = f"create {resource.kind} {metadata.get('name') or metadata.get('generateName')}"
        return self._write(resource, what, lambda: self._api.create(resource, obj, namespace))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace the object."""
        what = f"update {resource.kind} {obj['metadata']['name']} {subresource} {_gist(obj, subresource)}"
        return self._write(resource, what, lambda: self._api.update(resource, obj, subresource))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """Change the object."""

        def act() -> Object:
            return self._api.patch(
                resource,
                name,
                patch,
                namespace=namespace,
                subresource=subresource,
                patch_type=patch_type,
                field_manager=field_manager,
                force=force,
            )

        return self._write(resource, f"patch {resource.kind} {name} {subresource} {str(patch)[:400]}", act)

    def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> None:
        """Remove the object."""
        what = f"delete {resource.kind} {name} {options}"
        self._write(resource, what, lambda: self._api.delete(resource, name, namespace, **options))

    def _write(self, resource: Resource, what: str, act: Callable[[], T]) -> T:
        self._process.call()
        try:
            answer = act()
        except ApiError as error:
            self._diary.note(self._process.name, f"{what} -> {type(error).__name__}: {error}"[:300])
            raise
        finally:
            self._diary.wrote(resource)
        if resource not in (LEASES, EVENTS):
            self._diary.note(self._process.name, what)
        return answer


def _gist(obj: Object, subresource: str) -> str:
    """What of a claim's status is of interest."""
    status = obj.get("status") or {}
    if obj.get("kind") != "ResourceClaim" or not subresource:
        return ""
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    devices = [f"{result['pool']}/{result['device']}" for result in results]
    return f"allocation={devices} reservedFor={[entry['name'] for entry in status.get('reservedFor') or []]}"
