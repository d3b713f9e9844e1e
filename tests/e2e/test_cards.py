"""One card is drained with `kubectl lode`: its pod ends, its neighbours run on, and it serves again afterwards.

`tests/contract/test_cards.py` does the same without a kubelet, for each change.
"""

import subprocess
import sys

import pytest

from tests.e2e.client import Client, Object, eventually
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


@pytest.mark.release
def test_a_card_under_a_deployment_is_drained_with_one_eviction(client: Client, namespace: str) -> None:
    template_of_pod = pod("serve", "unused")["spec"]
    entry = {**template_of_pod["resourceClaims"][0], "resourceClaimName": "shared"}
    entry.pop("resourceClaimTemplateName")
    labels = {"app": "serve"}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**template_of_pod, "resourceClaims": [entry]}},
        },
    }
    deployment["spec"]["template"]["spec"].pop("restartPolicy", None)
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": template("unused", request())["spec"]["spec"],
    }

    def serving() -> bool:
        pods = client.list("pods", namespace)
        (only,) = [one for one in pods if not one["metadata"].get("deletionTimestamp")]
        return bool(only["status"]["phase"] == "Running")

    def card_of_claim() -> str:
        (stored,) = client.list("resourceclaims", namespace)
        (result,) = stored["status"]["allocation"]["devices"]["results"]
        return f"{result['pool'].partition('/')[0]}/{result['device']}"

    client.create(namespace, claim, deployment)
    eventually("the pod runs", serving)
    card = card_of_claim()
    try:
        drained = lode(client, "drain", card, "--delete-emptydir-data", "--timeout=90s")
        assert drained.returncode == 0, drained.stderr
        assert drained.stdout.count(f"evicting pod {namespace}/serve-") == 1
        eventually("the next pod runs", serving)
        assert card_of_claim() != card
    finally:
        lode(client, "uncordon", card)
