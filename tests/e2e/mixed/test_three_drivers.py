"""A card, its network card and a device of the Kubernetes example driver in one claim: Lode allocates all three.

The example driver publishes no PCIe root, so the constraint is about the other two.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import flavors
from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.mixed.conftest import NAMED
from tests.e2e.mixed.network_cards import LABEL, network_cards
from tests.e2e.mixed.test_mixed_claims import NIC, ROOT, check_views, running
from tests.e2e.nodes import PLUGIN_NAMESPACE, PLUGINS, on_workers, thaw
from tests.e2e.pods import pod, request, template
from tests.e2e.test_killed_programs import kill_in_containers

pytestmark = pytest.mark.release

_FILES = Path(__file__).parents[3]
_COMPONENT = _FILES / "manifests/also-allocates"
_EXAMPLE = _FILES / "benchmarks/example-driver.yaml"
DRIVER = "gpu.example.com"
EXAMPLE = {"name": "example", "exactly": {"deviceClassName": DRIVER}}
EXAMPLE_LABEL = "app=dra-example"
_NAMED_TOO = (
    ('"dra.net"', f'"dra.net","{DRIVER}"'),
    ("lode.dev, dra.net", f"lode.dev, dra.net, {DRIVER}"),
    ("dra[.]net", f"dra[.]net|{DRIVER.replace('.', '[.]')}"),
    ("alsoAllocates: [dra.net]", f"alsoAllocates: [dra.net, {DRIVER}]"),
)
"""What an operator writes who copies the component for a second driver, in place of what."""


@pytest.fixture
def both_named(client: Client, namespace: str, tmp_path: Path) -> Iterator[None]:
    """The example driver runs, and Lode allocates its devices and the network cards; afterwards it is gone."""
    client.kubectl("apply", "-f", str(_EXAMPLE))
    client.kubectl("-n", "kube-system", "rollout", "status", "daemonset/dra-example", "--timeout=120s", timeout=130)
    copy = tmp_path / "also-allocates"
    copy.mkdir()
    for file in _COMPONENT.iterdir():
        text = file.read_text()
        for one, both in _NAMED_TOO:
            text = text.replace(one, both)
        (copy / file.name).write_text(text)
    resources = [os.path.relpath(_FILES / "manifests/kind", tmp_path)]
    flavor = {"kind": "Kustomization", "resources": resources, "components": [copy.name]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(flavor))
    flavors.install(client, tmp_path)
    yield
    client.delete(namespace, "pods")
    flavors.install(client, NAMED)
    client.kubectl("delete", "-f", str(_EXAMPLE))
    client.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


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
    for label in (PLUGINS, LABEL, EXAMPLE_LABEL):
        kill_in_containers(client, label)
    network_cards(version=2).install(client)
    client.kubectl("-n", PLUGIN_NAMESPACE, "rollout", "restart", "daemonset")
    client.kubectl("-n", "kube-system", "rollout", "restart", "daemonset/dra-example")
    client.kubectl("-n", "kube-system", "rollout", "status", "daemonset/dra-example", "--timeout=120s", timeout=130)
    flavors.wait_until_installed(client)
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
    held: list[tuple[str, str]] = []
    for name in pods:
        (device,) = [it for it in _of(client, namespace, name) if it["request"] == "example"]
        script = r"env | sed -n 's/^GPU_DEVICE_[0-9]*=//p'"
        assert client.exec(namespace, name, "main", "sh", "-c", script).split() == [device["device"]]
        held.append((device["pool"], device["device"]))
    assert len(set(held)) == len(held)


def _of(client: Client, namespace: str, name: str) -> list[Object]:
    return [it for claim in client.claims(namespace)[name].values() for it in results(claim)]
