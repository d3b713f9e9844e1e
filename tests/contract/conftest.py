"""Fixtures: the same tests run on the API in memory, and on a real kube-apiserver with controllers and scheduler."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from driver.kube.api import NAMESPACES, RESOURCE_QUOTAS, Api, ApiError, Forbidden, Object, Resource
from driver.kube.client import KubeClient
from memoryapi import MemoryApi
from testclusters.controlplane import ControlPlane
from testclusters.debian import promtool
from testclusters.gomodules import ProgramMissing
from tests.simulation.clock import VirtualClock

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


LONGEST = (
    "test_migrating",
    "test_migrating_nvidia",
    "test_tutorials",
    "test_uninstall",
    "test_namespaces",
    "test_doctor",
    "test_policy_guard",
    "test_killed_in_a_commit",
    "test_device_plugin_tutorial",
    "test_readme",
)
"""The files that take longest. They come first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@contextmanager
def needed() -> Iterator[None]:
    """Skip the test, and in CI fail it, if a program that the block needs is not on this machine."""
    try:
        yield
    except ProgramMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def program() -> Path:
    """promtool."""
    with needed():
        return promtool()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, without nodes."""
    with needed():
        plane = ControlPlane()
        plane.start()
    try:
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[Api]:
    """The real API as the administrator."""
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
    """A name that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def namespace(api: Api, unique: str) -> str:
    """A namespace for this test, in which pods can be created."""
    api.create(NAMESPACES, {"metadata": {"name": unique}})
    if isinstance(api, KubeClient):
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", unique))
    return unique


def eventually(attempt: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Call ``attempt`` until it returns a true value without an ApiError, and return that value."""
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


def exceeds_quota(api: Api, resource: Resource, obj: Object) -> bool:
    """Whether the API server refuses to create the object as beyond a quota; it is deleted again if it is created.

    An admission plugin learns of quotas, their status and classes by watches, and counts nothing before.
    """
    try:
        api.create(resource, obj)
    except Forbidden as error:
        return "exceeded quota" in str(error)
    api.delete(resource, obj["metadata"]["name"], obj["metadata"]["namespace"], grace_period_seconds=0)
    return False


def used_of_quota(api: Api, namespace: str, quota: str = "q") -> Object:
    """What the status of the quota says is used, by name; {} before its first status."""
    used: Object = (api.get(RESOURCE_QUOTAS, quota, namespace).get("status") or {}).get("used") or {}
    return used
