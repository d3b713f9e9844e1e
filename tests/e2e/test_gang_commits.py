"""On a real cluster, the controller is killed at every write of a gang's commit.

``tests/contract/test_killed_in_a_commit.py`` does the same beside kube-scheduler, without a kubelet, for each change.
"""

from collections.abc import Iterator

import pytest

from tests.dying_controller import DIED
from tests.e2e.client import Client, eventually, names
from tests.e2e.outside import OutsideController, outside_controller
from tests.e2e.pods import request
from tests.e2e.test_gangs import GATE, bound, fabrics, gang, members
from tests.e2e.watcher import Watcher

MEMBERS = 4
WRITES = range(1, 3 * MEMBERS + 1)
"""Of each member: the allocation of its claim; the nomination of the pod, and its gate. A policy sets the finalizer."""
SETTINGS = {"leaseSeconds": 3, "writeSeconds": 1}
"""A Lease that was not released is taken over soon."""


@pytest.fixture(scope="module")
def outside(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutsideController]:
    with outside_controller(client, tmp_path_factory.mktemp("outside")) as controller:
        yield controller


@pytest.mark.release
@pytest.mark.parametrize("number", WRITES)
def test_a_gang_starts_whole_after_the_controller_was_killed_at_a_write(
    client: Client, outside: OutsideController, namespace: str, watcher: Watcher, number: int
) -> None:
    asked = gang("train", MEMBERS, request("gpu-share", memory="64Mi"))
    with outside.running("tests.dying_controller", str(number), **SETTINGS) as dying:
        client.create(namespace, asked, *members("train", MEMBERS))
        assert dying.wait(60) == DIED
    pods = client.list("pods", namespace)
    let_go = [one for one in pods if {"name": GATE} not in one["spec"].get("schedulingGates", [])]
    lacking = [name for name in names(pods) if not client.devices(namespace, name)]
    assert not (let_go and lacking), "no gate is removed before all claims are written"
    with outside.running(**SETTINGS):
        eventually("all are bound", lambda: bound(client, namespace, MEMBERS))
        assert len(set(fabrics(client, namespace).values())) == 1
        client.delete(namespace, "pods")
