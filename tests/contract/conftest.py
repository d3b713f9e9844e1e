"""One set of tests, two APIs: the one in memory, and a real kube-apiserver with its controllers and scheduler."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from driver.kube.api import NAMESPACES, Api, ApiError, Resource
from driver.kube.client import KubeClient
from memoryapi import MemoryApi
from simulation.clock import VirtualClock
from testclusters import ControlPlane, ProgramMissing

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the real API share one control plane, also when several processes run tests."""
    for item in items:
        if "[real" in item.name or "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("control_plane"))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Real etcd, kube-apiserver, kube-controller-manager and kube-scheduler; no nodes."""
    try:
        plane = ControlPlane()
        plane.start()
    except ProgramMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    try:
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[Api]:
    """The real API, as its administrator."""
    client = KubeClient.from_environment(str(control_plane.kubeconfig()))
    yield client
    client.close()


@pytest.fixture(params=["memory", "real"])
def api(request: pytest.FixtureRequest) -> Api:
    if request.param == "memory":
        return MemoryApi(VirtualClock())
    real: Api = request.getfixturevalue("admin")
    return real


@pytest.fixture
def unique() -> str:
    """A name no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def namespace(api: Api, unique: str) -> str:
    """A namespace of this test's own, in which pods can be created."""
    api.create(NAMESPACES, {"metadata": {"name": unique}})
    if isinstance(api, KubeClient):
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", unique))
    return unique


def eventually(attempt: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What ``attempt`` returns as soon as it returns something true without an ApiError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if result := attempt():
                return result
        except ApiError:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
