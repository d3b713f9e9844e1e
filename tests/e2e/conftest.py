"""Fixtures: the driver on a kind cluster, installed as a user installs it; and the report of a failed test."""

import itertools
import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from testclusters.kind import KindCluster
from tests.e2e import flavors, nodes, report
from tests.e2e.apiserver import api_server
from tests.e2e.client import Client, Object, eventually_none
from tests.e2e.watcher import Watcher

NAMESPACE_LABEL = {"lode-test/space": "e2e"}
"""The label of every namespace that tests create."""
THAW_AFTER = 4.0
"""Seconds after which a pod that has not ended may be frozen."""

LONGEST = ("hardware", "test_killed_programs", "test_adoption", "test_install", "bridged")
"""The groups of tests that take longest. They come first, so that no cluster is left with one of them at the end."""

_run = f"{time.time_ns() // 10**9 % 10**5:05d}"
_numbers = itertools.count()


def group_of(nodeid: str) -> str:
    """The file of a test, or its folder, which installs a flavor of its own."""
    folder, _, file = nodeid.partition("::")[0].removeprefix("tests/e2e/").rpartition("/")
    return folder or file.removesuffix(".py")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a group on one cluster."""
    scheduling: Any = LoadFileScheduling(config, log)
    scheduling._split_scope = group_of
    return scheduling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(group_of(item.nodeid), len(LONGEST)))


@pytest.fixture(scope="session")
def cluster() -> KindCluster:
    """The running cluster (see `python -m testclusters kind`), with the images of the tests on its nodes.

    Of several processes that share the tests, each has a cluster of its own.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    names = os.environ.get("LODE_CLUSTERS", "").split()
    cluster = KindCluster.attach(names[process] if names else None)
    os.environ.update(cluster.environment())
    for image in ("lode-dra:dev", "lode-test/busybox:1"):
        cluster.load_image(image)
    return cluster


@pytest.fixture(scope="session")
def client(cluster: KindCluster) -> Iterator[Client]:
    """The administrator. The driver is installed in its default flavor, and objects of earlier runs are deleted."""
    cluster.wait_ready()
    with api_server(cluster) as api:
        client = Client(cluster, api)
        ((key, value),) = NAMESPACE_LABEL.items()
        client.kubectl("delete", "namespaces", "-l", f"{key}={value}", "--timeout=120s", timeout=150)
        flavors.install(client, flavors.CONTROLLER_ALLOCATED)
        yield client


@pytest.fixture(scope="session")
def watcher(client: Client) -> Iterator[Watcher]:
    """Checks every event of every claim while tests run; after the last test, checks that nothing is left of any."""
    watcher = Watcher(client)
    yield watcher
    try:
        eventually_none("nothing is left of any test", lambda: leftovers(client, watcher))
    finally:
        watcher.stop()


@pytest.fixture(autouse=True)
def no_device_is_allocated_twice(watcher: Watcher) -> Iterator[None]:
    """After every event during a test, no exclusive card is in two claims and no shared card exceeds its capacity."""
    yield
    violations, watcher.violations = watcher.violations, []
    assert not violations, "\n".join(violations)


@pytest.fixture
def namespace(client: Client, watcher: Watcher) -> Iterator[str]:
    """A new namespace for a test.

    When the test ends, its pods are deleted. Then nothing of the test may be left: no allocation, no CDI file, no entry
    in a checkpoint; and the slices are the same as before. What other tests left is not checked here, so that one
    failure does not make all later tests fail.
    """
    before = nodes.published_slices(client)
    with a_namespace(client, watcher) as name:
        yield name
    eventually_none("the slices are as before", lambda: nodes.changed_pools(before, nodes.published_slices(client)))


@contextmanager
def a_namespace(client: Client, watcher: Watcher) -> Iterator[str]:
    """A new namespace, of which nothing is left afterwards but in the slices."""
    name = f"e2e-{_run}-{next(_numbers)}"
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": NAMESPACE_LABEL}}
    client.kubectl("create", "-f", "-", input=json.dumps(space))
    yield name
    client.delete(name, ",".join(KINDS), wait=False)
    ended = time.monotonic()
    eventually_none("its objects are gone", lambda: remaining_objects(client, name, since=ended))
    eventually_none("no device is held", lambda: watcher.held(name))
    eventually_none("nothing is left on the nodes", lambda: nodes.leftovers(client, watcher.uids(name)))
    client.kubectl("delete", "namespace", name, "--wait=false")


KINDS = ("deployments", "statefulsets", "jobs", "pods", "resourceclaims")
"""Kinds of objects that tests create and that are deleted before the namespace, owners first."""


def remaining_objects(client: Client, namespace: str, since: float) -> list[str]:
    """The objects of a namespace that still exist, though they have been deleted ``since`` then.

    While there are any, processes that a killed runc left frozen are thawed: that can happen at any time while pods
    are being deleted.
    """
    remaining = [f"{kind}/{it['metadata']['name']}" for kind in KINDS for it in client.list(kind, namespace)]
    if remaining and time.monotonic() > since + THAW_AFTER:
        nodes.thaw(client)
    return remaining


def leftovers(client: Client, watcher: Watcher) -> dict[str, object]:
    """Everything that is left in the cluster of any test."""
    found = {"held": watcher.held(), "on the nodes": nodes.leftovers(client)}
    return {place: items for place, items in found.items() if items}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster, as far as it belongs to a failed test's namespace, to the test's report."""
    outcome = yield
    fixtures = getattr(item, "funcargs", {})
    client, name = fixtures.get("client"), fixtures.get("namespace")
    if outcome.failed and isinstance(client, Client) and isinstance(name, str):
        outcome.sections.append((f"the cluster, {name}", report.state(client, name)))
    return outcome
