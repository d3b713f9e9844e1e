"""One run of a program, and its ports: the program may crash, stall or be interleaved with others at any call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from driver.disk import Disk
from driver.kube.api import EVENTS, LEASES, Api, ApiCall, ApiError, Object
from driver.kube.decorator import ApiDecorator
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.faults import Crash

T = TypeVar("T")


class Process:
    """One run of one program. The program announces each call to its ports with ``call``, which may end it.

    Args:
        before: runs before each call: it may run another program, or mark this process as dead.
        after: runs before the answer to a call of the API is seen.
    """

    def __init__(
        self,
        name: str,
        before: Callable[["Process"], None],
        after: Callable[["Process", ApiCall], None] = lambda process, call: None,
    ):
        self.name = name
        self.alive = True
        self.calls = 0
        """How many calls have begun and not ended; other programs may act meanwhile."""
        self._before = before
        self._after = after

    def call(self) -> None:
        """Announce a call.

        Raises:
            Crash: the process is dead; the code that still runs for it must end.
        """
        if self.alive:
            self.calls += 1
            try:
                self._before(self)
            finally:
                self.calls -= 1
        if not self.alive:
            raise Crash(self.name)

    def answered(self, call: ApiCall) -> None:
        """Announce that a call took effect.

        Raises:
            Crash: the process is dead by now.
        """
        self.calls += 1
        try:
            self._after(self, call)
        finally:
            self.calls -= 1
        if not self.alive:
            raise Crash(self.name)


class ProcessClock:
    """The cluster's clock as one process has it: other programs may run while it sleeps.

    Args:
        ahead: by how many seconds the wall clock of its machine is ahead of the cluster's.
    """

    def __init__(self, clock: VirtualClock, process: Process, ahead: Callable[[], float] = lambda: 0.0):
        self._process = process
        self._clock = clock
        self._ahead = ahead
        self.monotonic = clock.monotonic

    def now(self) -> float:
        """Seconds since the Unix epoch, as the machine has it."""
        return self._clock.now() + self._ahead()

    def sleep(self, seconds: float) -> None:
        """Advance the cluster's time."""
        self._process.call()
        self._clock.advance(seconds)
        self._process.call()


class ProcessDisk:
    """A node's disk as one process has it."""

    def __init__(self, disk: Disk, process: Process):
        self._disk = disk
        self._process = process

    def read(self, path: str) -> bytes | None:
        """See ``Disk``."""
        self._process.call()
        return self._disk.read(path)

    def names(self, folder: str) -> list[str]:
        """See ``Disk``."""
        self._process.call()
        return self._disk.names(folder)

    def make_folder(self, path: str) -> None:
        """See ``Disk``."""
        self._disk.make_folder(path)

    def create(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """See ``Disk``."""
        self._process.call()
        return self._disk.create(folder, prefix, suffix, data)

    def overwrite(self, path: str, data: bytes) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.overwrite(path, data)

    def sync(self, path: str) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.sync(path)

    def rename(self, source: str, target: str) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.rename(source, target)

    def exchange(self, one: str, other: str) -> bool:
        """See ``Disk``."""
        self._process.call()
        return self._disk.exchange(one, other)

    def unlink(self, path: str) -> bool:
        """See ``Disk``."""
        self._process.call()
        return self._disk.unlink(path)

    def sync_folder(self, path: str) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.sync_folder(path)

    def let_containers_read(self, folder: str) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.let_containers_read(folder)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Exclusive while held; released when the process dies."""
        self._process.call()
        with self._disk.lock(path):
            yield

    def is_locked(self, path: str) -> bool:
        """See ``Disk``."""
        self._process.call()
        return self._disk.is_locked(path)

    def remove_lock(self, path: str) -> None:
        """See ``Disk``."""
        self._process.call()
        self._disk.remove_lock(path)


class ProcessApi(ApiDecorator):
    """The API as one process has it; every write is in the event log."""

    def __init__(self, api: Api, process: Process, log: EventLog):
        super().__init__(api)
        self._process = process
        self._log = log

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer, if the process is alive."""
        self._process.call()
        answer = self._logged(call, proceed) if call.is_write else proceed()
        self._process.answered(call)
        return answer

    def _logged(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        text = f"{call.verb} {call.resource.kind} {call.name} {call.subresource} {_details(call)}"
        try:
            answer = proceed()
        except ApiError as error:
            self._log.note(self._process.name, f"{text} -> {type(error).__name__}: {error}"[:300])
            raise
        finally:
            self._log.count_write(call.resource)
        if call.resource not in (LEASES, EVENTS):
            self._log.note(self._process.name, text)
        return answer


def _details(call: ApiCall) -> str:
    match call.verb:
        case "patch":
            return str(call.body)[:400]
        case "update":
            return _claim_status(call.body, call.subresource)
        case "delete" | "evict":
            return f"uid={call.uid} resourceVersion={call.resource_version}{' on trial' if call.dry_run else ''}"
    return ""


def _claim_status(obj: Object, subresource: str) -> str:
    """The allocation and reservations of a claim whose status is written."""
    status = obj.get("status") or {}
    if obj.get("kind") != "ResourceClaim" or not subresource:
        return ""
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    devices = [f"{result['pool']}/{result['device']}" for result in results]
    return f"allocation={devices} reservedFor={[entry['name'] for entry in status.get('reservedFor') or []]}"
