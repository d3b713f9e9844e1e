"""One card is drained with `kubectl lode`: its pod ends, its neighbours run on, and it serves again afterwards.

`tests/contract/test_cards.py` does the same without a kubelet, for each change.
"""

import subprocess
import sys

import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.pods import pod, request, template

UUID = 'device.attributes["lode.dev"].uuid'


def lode(client: Client, *argv: str) -> "subprocess.CompletedProcess[str]":
    """The command with the rights of the administrator, in the cluster's network."""
    command = [sys.executable, "-m", "cli", *argv, f"--kubeconfig={client.cluster.kubeconfig}"]
    return client.cluster.docker.run(*command, check=False, timeout=120)


def uuid_of(client: Client, pool: str, device: str) -> str:
    """The uuid of a published device."""
    for part in client.list("resourceslices"):
        for one in part["spec"].get("devices", []) if part["spec"]["pool"]["name"] == pool else []:
            if one["name"] == device:
                return str(one["attributes"]["uuid"]["string"])
    raise AssertionError(f"{pool}/{device} is not published")


@pytest.mark.release
def test_a_card_is_drained_reset_and_put_back_while_its_neighbours_run_on(client: Client, namespace: str) -> None:
    client.create(namespace, template("one", request()), pod("first", "one"), pod("neighbour", "one"))
    client.wait_until_ready(namespace, "first", "neighbour")
    (held,) = client.devices(namespace, "first")
    pool, _, device = held.rpartition("/")
    card = f"{pool.partition('/')[0]}/{device}"
    uuid = uuid_of(client, pool, device)
    try:
        assert lode(client, "reset", card).returncode == 1
        drained = lode(client, "drain", card, "--force", "--delete-emptydir-data", "--timeout=90s")
        assert drained.returncode == 0, drained.stderr
        assert f"pod {namespace}/first evicted" in drained.stdout
        left = [one["metadata"]["name"] for one in client.list("pods", namespace)]
        assert left == ["neighbour"]
        assert lode(client, "reset", card).returncode == 0
        client.create(namespace, template("same", request(selector=f'{UUID} == "{uuid}"')), pod("again", "same"))

        def waits() -> bool:
            assert "lode.dev/cordoned" in client.messages(namespace, "again")
            return True

        eventually("the pod is told that the card is cordoned", waits)
        assert lode(client, "uncordon", card).returncode == 0
        client.wait_until_ready(namespace, "again", "neighbour")
    finally:
        lode(client, "uncordon", card)
