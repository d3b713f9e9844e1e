"""The driver on a kind cluster, installed as a user installs it; and what is dumped when a test fails."""

import itertools
import json
import time
from collections.abc import Generator, Iterator

import pytest

from tests.clusters.kind import KindCluster
from tests.e2e import flavours, nodes
from tests.e2e.client import Client, eventually
from tests.e2e.watcher import Watcher

SPACE = "lode-test/space=e2e"
"""The label of every namespace that tests make."""

_run = f"{time.time_ns() // 10**9 % 10**5:05d}"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> KindCluster:
    """The cluster that is up (see `python -m tests.clusters kind`), with the images of the tests on its nodes."""
    cluster = KindCluster.attach()
    for image in ("lode-dra:dev", "lode-test/busybox:1"):
        cluster.load_image(image)
    return cluster


@pytest.fixture(scope="session")
def client(cluster: KindCluster) -> Client:
    """The administrator, with the driver installed in its default flavour and nothing of an earlier run left."""
    client = Client(cluster)
    cluster.wait_ready()
    client.kubectl("delete", "namespaces", "-l", SPACE, "--timeout=120s", timeout=150)
    flavours.install(client, flavours.CONTROLLER_ALLOCATED)
    return client


@pytest.fixture(scope="session")
def watcher(client: Client) -> Iterator[Watcher]:
    """Judges every event of every claim while tests run."""
    watcher = Watcher(client)
    yield watcher
    watcher.stop()


@pytest.fixture(autouse=True)
def nothing_was_held_twice(watcher: Watcher) -> Iterator[None]:
    """No exclusive card in two live claims and no share above its capacity, after every event during a test."""
    yield
    found, watcher.violations = watcher.violations, []
    assert not found, "\n".join(found)


@pytest.fixture
def space(client: Client, watcher: Watcher) -> Iterator[str]:
    """A new namespace. When the test ends its pods are deleted, and then nothing of them may be left anywhere: no
    allocation, no CDI file, no entry in a checkpoint; and the slices are what they were before.
    """
    name = f"e2e-{_run}-{next(_numbers)}"
    before = nodes.published(client)
    client.kubectl("create", "namespace", name)
    client.kubectl("label", "namespace", name, SPACE)
    yield name
    for kind in ("jobs", "pods", "resourceclaims"):
        client.delete(name, kind)
    eventually("nothing is held any more", lambda: not watcher.held())
    eventually("nothing is left on the nodes", lambda: not nodes.left(client))
    eventually("the slices are as before", lambda: nodes.published(client) == before)
    client.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the cluster says to the report of a test that failed."""
    report = yield
    client = getattr(item, "funcargs", {}).get("client")
    if report.failed and isinstance(client, Client):
        report.sections.append(("the cluster", _state(client)))
    return report


def _state(client: Client) -> str:
    commands = [
        "get pods -A -o wide",
        "get resourceclaims -A -o wide",
        "get resourceslices",
        "get events -A --sort-by=.lastTimestamp",
        "-n lode-system logs -l app.kubernetes.io/name=lode-controller --tail=200 --prefix",
        "-n lode-system logs -l app.kubernetes.io/name=lode-kubeletplugin --tail=80 --prefix",
    ]
    printed = [f"$ kubectl {it}\n{client.kubectl(*it.split(), check=False)[-20000:]}" for it in commands]
    claims = {node: nodes.prepared(client, node) for node in client.cluster.workers}
    return "\n\n".join([*printed, f"prepared: {json.dumps(claims)}"])
