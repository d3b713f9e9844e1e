"""What a run needs of a cluster, and how a kind cluster does it."""

import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol

from driver.kube.api import RESOURCE_SLICES, Object
from testclusters.commands import CommandFailed
from testclusters.kind import NotReady
from tests.chaos.fixtures import Fixtures
from tests.chaos.injecting import Injector, NotDone, Snapshots
from tests.chaos.reading import read
from tests.chaos.schedule import Fault
from tests.chaos.workload import LABEL
from tests.chaos.world import Reading
from tests.e2e.client import Client
from tests.e2e.nodes import thaw
from tests.e2e.watcher import Watcher

_NO_ANSWER: Final = (CommandFailed, NotReady, AssertionError, LookupError, subprocess.TimeoutExpired)


class NotNow(Exception):
    """Somebody does not answer; the message says who."""


class Stage(Protocol):
    """A cluster on which everything is installed. Every method may raise `NotNow`."""

    def pods(self) -> Sequence[Object]:
        """The pods of the workload."""
        ...

    def make(self, namespace: str, objects: Sequence[Object]) -> None:
        """Make pods, and templates of theirs."""
        ...

    def end(self, namespace: str, pods: Sequence[str]) -> None:
        """Delete pods, and do not wait for their end."""
        ...

    def tend(self) -> None:
        """Do what is nobody's task on a cluster of tests, such as to thaw what a killed runc has left frozen."""
        ...

    def read(self) -> Reading:
        """The world, about now."""
        ...

    def violations(self, reading: Reading) -> Sequence[str]:
        """What was wrong after single events since the last call, for slices as in the reading."""
        ...

    def snapshot(self) -> None:
        """Keep what etcd has now."""
        ...

    def start(self, fault: Fault) -> "Future[None]":
        """Begin to do a fault.

        The future raises `NotDone` if it could not be done, and `NotNow` if what it has broken did not come back.
        """
        ...


class KindStage:
    """A kind cluster.

    Args:
        watcher: sees every event of a claim; it learns of slices by readings alone.
    """

    def __init__(self, client: Client, fixtures: Fixtures, watcher: Watcher):
        self._client = client
        self._fixtures = fixtures
        self._watcher = watcher
        self._snapshots = Snapshots(client)
        self._snapshots.set_up()
        self._injector = Injector(client, fixtures, self._snapshots)
        self._threads = ThreadPoolExecutor(1)

    def pods(self) -> Sequence[Object]:
        """See `Stage`."""
        with _answering():
            return self._client.list("pods", labels=LABEL)

    def make(self, namespace: str, objects: Sequence[Object]) -> None:
        """See `Stage`."""
        with _answering():
            self._client.apply(namespace, *objects)

    def end(self, namespace: str, pods: Sequence[str]) -> None:
        """See `Stage`."""
        with _answering():
            self._client.delete(namespace, "pods", *pods, wait=False)

    def tend(self) -> None:
        """See `Stage`; the vendor's device plugin has no DaemonSet."""
        with _answering():
            self._fixtures.revive_device_plugin()
            thaw(self._client)

    def read(self) -> Reading:
        """See `Stage`."""
        with _answering():
            return read(self._client)

    def violations(self, reading: Reading) -> Sequence[str]:
        """See `Stage`."""
        for raw in reading.objects[RESOURCE_SLICES]:
            self._watcher.learn(raw)
        self._watcher.held()  # which says whether it still watches
        found, self._watcher.violations = self._watcher.violations, []
        return found

    def snapshot(self) -> None:
        """See `Stage`."""
        with _answering():
            self._snapshots.take()

    def start(self, fault: Fault) -> "Future[None]":
        """See `Stage`."""
        return self._threads.submit(self._do, fault)

    def _do(self, fault: Fault) -> None:
        with _answering():
            self._injector.do(fault)


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except NotDone:
        raise
    except _NO_ANSWER as error:
        raise NotNow(str(error).strip()[:500]) from error
