"""A node changes from a device plugin to this driver while the pods of both run, and back."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.hardware.conftest import Machines
from tests.e2e.hardware.old_cards import closed, handed_out, old_pod
from tests.e2e.pods import pod, request, template
from tests.e2e.test_cards import lode


@pytest.fixture
def node(client: Client, machines: Machines, namespace: str) -> Iterator[str]:
    """A node with eight cards that a device plugin hands out."""
    with handed_out(client, machines, namespace) as node:
        yield node


def containers(client: Client, namespace: str, *names: str) -> list[Any]:
    """The containers of pods, and how often each was restarted."""
    statuses = [client.get("pods", name, namespace)["status"]["containerStatuses"][0] for name in names]
    return [(it["containerID"], it["restartCount"]) for it in statuses]


def test_old_pods_run_on_while_the_other_cards_serve_claims_and_back(client: Client, namespace: str, node: str) -> None:
    old = [f"old-{number}" for number in range(4)]
    client.create(namespace, *map(old_pod, old))
    client.wait_until_ready(namespace, *old)
    running = containers(client, namespace, *old)

    taken = lode(client, "handover", node, "--timeout=100s")
    assert taken.returncode == 0, taken.stdout + taken.stderr
    eventually("the cards of the old pods are the only ones that are closed", lambda: len(closed(client, node)) == 4)
    theirs = closed(client, node)
    new = [f"new-{number}" for number in range(4)]
    on_node = {"kubernetes.io/hostname": node}
    client.create(namespace, template("card", request()), *(pod(it, "card", nodeSelector=on_node) for it in new))
    client.wait_until_ready(namespace, *old, *new)
    ours = {device.rpartition("/")[2] for name in new for device in client.devices(namespace, name)}
    assert len(ours) == 4
    assert not ours & theirs

    refused = lode(client, "handover", node, "--back", "--timeout=100s")
    assert refused.returncode == 1
    assert f"first kubectl lode drain {node}" in refused.stderr
    client.delete(namespace, "pods", *new)
    back = lode(client, "handover", node, "--back", "--timeout=100s")
    assert back.returncode == 0, back.stdout + back.stderr
    assert len(closed(client, node)) == 8
    more = [f"more-{number}" for number in range(4)]
    client.create(namespace, *map(old_pod, more))
    client.wait_until_ready(namespace, *old, *more)
    assert containers(client, namespace, *old) == running
    assert {restarts for _, restarts in containers(client, namespace, *more)} == {0}
