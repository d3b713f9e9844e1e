"""``lode explain`` on a small cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli import live
from cli.__main__ import main as lode
from cli.shipped import device_classes
from driver.errors import OperatorFault
from driver.kube.api import (
    DEVICE_CLASSES,
    NODES,
    RESOURCE_SLICES,
    Api,
)
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import Answer, node, slices
from tests.unit.cli.user import User


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> User:
    """A node with two T4 and room for 8 CPUs; the user's namespace is ``default``."""
    clock = VirtualClock()
    api = MemoryApi(clock)
    for obj in device_classes():
        api.create(DEVICE_CLASSES, obj)
    api.create(NODES, node("g"))
    for part in slices("g", "t4x2", ("whole",)):
        api.create(RESOURCE_SLICES, part)
    user = User(api, clock)

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Api, str]]:
        if kubeconfig == "broken":
            raise OperatorFault("kubeconfig broken: is no file; name another in $KUBECONFIG")
        yield user, "default"  # type: ignore[misc]

    monkeypatch.setattr(live, "cluster", connected)
    return user


@pytest.fixture
def explained(cluster: User, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*argv: str, output: str = "json") -> Answer:
        status = lode(["explain", *argv, "-o", output])
        shown = capsys.readouterr()
        return Answer(status, shown.out, shown.err)

    return call
