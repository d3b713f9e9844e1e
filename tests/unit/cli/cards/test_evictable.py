"""Which pods `lode drain` evicts without being asked twice."""

from typing import Any

import pytest

from cli.cards.draining import obstacle
from driver.kube.api import Object
from tests.unit.cli.cluster import pod

CONTROLLED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]
DAEMON = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
OWNED = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]
ON_DISK: Any = [{"name": "scratch", "emptyDir": {}}]
IN_MEMORY: Any = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {"name": "c"}}]


def made(owners: Any = (), volumes: Any = (), deleting: bool = False) -> Object:
    found = pod("p", "c", volumes=list(volumes))
    marks = {"deletionTimestamp": "2027-01-15T08:00:00Z"} if deleting else {}
    return {**found, "metadata": {**found["metadata"], "ownerReferences": list(owners), **marks}}


@pytest.mark.parametrize(
    ("candidate", "force", "delete_data", "reason"),
    [
        (made(CONTROLLED), False, False, ""),
        (made(DAEMON), False, False, ""),
        (made(), False, False, "it has no controller"),
        (made(OWNED), False, False, "it has no controller"),
        (made(), True, False, ""),
        (made(CONTROLLED, ON_DISK), False, False, "emptyDir would be lost"),
        (made(CONTROLLED, ON_DISK), True, False, "emptyDir would be lost"),
        (made(CONTROLLED, ON_DISK), False, True, ""),
        (made(CONTROLLED, IN_MEMORY), False, False, ""),
        (made((), ON_DISK, deleting=True), False, False, ""),
    ],
)
def test_a_pod_is_evicted_unless_something_would_be_lost_that_nobody_agreed_to(
    candidate: Object, force: bool, delete_data: bool, reason: str
) -> None:
    found = obstacle(candidate, force=force, delete_emptydir_data=delete_data)
    assert reason in found
    assert bool(found) == bool(reason)
