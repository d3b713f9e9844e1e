"""The driver on a kind cluster, installed as a user installs it; and what a failed test shows."""

import itertools
import time
from collections.abc import Generator, Iterator

import pytest

from testclusters import KindCluster
from tests.e2e import flavours, nodes, report
from tests.e2e.client import Client, gone
from tests.e2e.watcher import Watcher

SPACE = "lode-test/space=e2e"
"""The label of every namespace that tests make."""

_run = f"{time.time_ns() // 10**9 % 10**5:05d}"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> KindCluster:
    """The cluster that is up (see `python -m testclusters kind`), with the images of the tests on its nodes."""
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
    """Judges every event of every claim while tests run; after the last nothing of any test may be left anywhere."""
    watcher = Watcher(client)
    yield watcher
    try:
        gone("nothing of any test is left", lambda: everything_left(client, watcher))
    finally:
        watcher.stop()


@pytest.fixture(autouse=True)
def nothing_was_held_twice(watcher: Watcher) -> Iterator[None]:
    """No exclusive card in two live claims and no share above its capacity, after every event during a test."""
    yield
    found, watcher.violations = watcher.violations, []
    assert not found, "\n".join(found)


@pytest.fixture
def space(client: Client, watcher: Watcher) -> Iterator[str]:
    """A new namespace. When the test ends its pods are deleted, and then nothing of it may be left anywhere: no
    allocation, no CDI file, no entry in a checkpoint; and the slices are what they were before.

    What another test left is not asked for here, or every later test would fail for it.
    """
    name = f"e2e-{_run}-{next(_numbers)}"
    before = nodes.published(client)
    client.kubectl("create", "namespace", name)
    client.kubectl("label", "namespace", name, SPACE)
    yield name
    for kind in KINDS:
        client.delete(name, kind, wait=False)
    gone("its objects are gone", lambda: objects_left(client, name))
    gone("nothing is held any more", lambda: watcher.held(name))
    gone("nothing is left on the nodes", lambda: nodes.left(client, watcher.uids(name)))
    gone("the slices are as before", lambda: nodes.changed(before, nodes.published(client)))
    client.kubectl("delete", "namespace", name, "--wait=false")


KINDS = ("jobs", "pods", "resourceclaims")
"""What tests make and does not end with its namespace at once, owners first."""


def objects_left(client: Client, namespace: str) -> list[str]:
    """The objects of a namespace that are still there. What a killed runc has frozen is let go on the way: it can be
    killed, or be started in vain, as long as pods are being deleted.
    """
    found = client.kubectl("get", ",".join(KINDS), f"--namespace={namespace}", "--output=name").split()
    if found:
        nodes.thaw(client)
    return found


def everything_left(client: Client, watcher: Watcher) -> dict[str, object]:
    """Whatever is left in the cluster, of whichever test."""
    found = {"held": watcher.held(), "on the nodes": nodes.left(client)}
    return {where: it for where, it in found.items() if it}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the cluster says of a failed test's namespace to its report."""
    outcome = yield
    given = getattr(item, "funcargs", {})
    client, name = given.get("client"), given.get("space")
    if outcome.failed and isinstance(client, Client) and isinstance(name, str):
        outcome.sections.append((f"the cluster, {name}", report.state(client, name)))
    return outcome
