"""A card, its network card and a device of the Kubernetes example driver in one claim: Lode allocates all three.

The example driver publishes no PCIe root, so the constraint is about the other two.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, eventually
from tests.e2e.mixed import network_cards
from tests.e2e.mixed.conftest import NAMED
from tests.e2e.mixed.test_mixed_claims import NIC, ROOT, by_request, check_views, kill_and_change_plugins, running
from tests.e2e.nodes import on_workers, thaw
from tests.e2e.pods import pod, request, template
from tests.e2e.test_killed_programs import kill_in_containers

pytestmark = pytest.mark.release

_MANIFESTS = Path(__file__).parents[3] / "benchmarks/example-driver.yaml"
DRIVER = "gpu.example.com"
EXAMPLE = {"name": "example", "exactly": {"deviceClassName": DRIVER}}
LABEL = "app=dra-example"


@pytest.fixture
def both_named(client: Client, namespace: str, tmp_path: Path) -> Iterator[None]:
    """The example driver runs, and Lode allocates its devices and the network cards; afterwards it is gone."""
    try:
        client.kubectl("apply", "-f", str(_MANIFESTS))
        wait_for_example_driver(client)
        flavors.install(client, flavors.also_allocating(tmp_path, network_cards.DRIVER, DRIVER))
        yield
    finally:
        client.delete(namespace, "pods")
        flavors.install(client, NAMED)
        client.kubectl("delete", "-f", str(_MANIFESTS))
        client.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


def wait_for_example_driver(client: Client) -> None:
    command = ("rollout", "status", "daemonset/dra-example", "--timeout=120s")
    client.kubectl("-n", "kube-system", *command, timeout=130)


def test_devices_of_three_drivers_in_one_claim_outlive_their_plugins(
    client: Client, namespace: str, both_named: None
) -> None:
    specs = on_workers(client, f"ls /var/run/cdi | grep {DRIVER}")
    constraint = {"requests": ["card", "nic"], "matchAttribute": ROOT}
    client.create(namespace, template("three", request("gpu"), NIC, EXAMPLE, constraints=[constraint]))
    client.create(namespace, *(pod(f"pod-{number}", "three", profile="a100x4") for number in range(3)))
    eventually("two have devices", lambda: len(running(client, namespace)) == 2)
    pods = running(client, namespace)
    check_views(client, namespace)
    check_examples(client, namespace, pods)
    kill_in_containers(client, LABEL)
    kill_and_change_plugins(client)
    client.kubectl("-n", "kube-system", "rollout", "restart", "daemonset/dra-example")
    wait_for_example_driver(client)
    assert running(client, namespace) == pods
    (waits,) = {f"pod-{number}" for number in range(3)} - set(pods)
    client.delete(namespace, "pods", pods[0])
    client.wait_until_ready(namespace, waits, before_check=lambda: thaw(client))
    check_views(client, namespace)
    check_examples(client, namespace, [waits, pods[1]])
    client.delete(namespace, "pods")
    eventually(
        "the example driver has prepared nothing",
        lambda: on_workers(client, f"ls /var/run/cdi | grep {DRIVER}") == specs,
    )


def check_examples(client: Client, namespace: str, pods: list[str]) -> None:
    """The container of each pod is told of the example driver's device that its claim has, and no two have the same."""
    claims = client.claims(namespace)
    held = [by_request(claims[name])["example"] for name in pods]
    for name, device in zip(pods, held, strict=True):
        script = r"env | sed -n 's/^GPU_DEVICE_[0-9]*=//p'"
        assert client.exec(namespace, name, "main", "sh", "-c", script).split() == [device["device"]]
    assert len({(device["pool"], device["device"]) for device in held}) == len(held)
