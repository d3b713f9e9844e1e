"""A card and a network card in separate claims of a pod, which ``alignWith`` puts on one PCIe root."""

from tests.e2e import flavors
from tests.e2e.client import Client, Object, eventually, names
from tests.e2e.mixed.conftest import NAMED
from tests.e2e.mixed.network_cards import CLASS, DRIVER
from tests.e2e.mixed.test_mixed_claims import NIC, ROOT, check_views, running
from tests.e2e.pods import pod, request, template

PROFILE = "a100x4"
APART = f"with another {ROOT} than claims c0 and c1 can share"
"""What a pod is told of its entries ``c0``, the card, and ``c1``, the network card."""


def card_beside_c1() -> Object:
    """The template of a card beside the devices of the pod's entry ``c1``."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "alignWith": {"claim": "c1", "attribute": ROOT},
    }
    return template("card", request(), config=[{"opaque": {"driver": "lode.dev", "parameters": parameters}}])


def test_two_claims_of_a_pod_have_a_card_and_a_network_card_of_one_pcie_root(client: Client, namespace: str) -> None:
    flavors.install(client, NAMED)
    pods = [pod(f"pod-{number}", "card", "nic", profile=PROFILE) for number in range(3)]
    client.create(namespace, card_beside_c1(), template("nic", NIC), *pods)
    eventually("two have devices", lambda: len(running(client, namespace)) == 2)
    (waits,) = set(names(client.list("pods", namespace))) - set(running(client, namespace))
    eventually("the third is told why not", lambda: APART in client.messages(namespace, waits))
    assert client.devices(namespace, waits) == set()
    check_views(client, namespace)
    client.delete(namespace, "pods", running(client, namespace)[0])
    client.wait_until_ready(namespace, waits)
    check_views(client, namespace)


def test_a_pod_whose_network_card_has_no_free_card_beside_it_is_told_why(client: Client, namespace: str) -> None:
    flavors.install(client, NAMED)
    on_root = 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"'
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].ifName == "rdma0"'}}
    nic = {"name": "nic", "exactly": {"deviceClassName": CLASS, "selectors": [selector]}}
    client.create(namespace, template("cards", request(count=2, selector=on_root)), card_beside_c1())
    client.create(namespace, template("nic", nic), pod("holder", "cards", profile=PROFILE))
    client.wait_until_ready(namespace, "holder")
    client.create(namespace, pod("waits", "card", "nic", profile=PROFILE))
    eventually("it is told why", lambda: APART in client.messages(namespace, "waits"))
    assert client.devices(namespace, "waits") == set()
    client.delete(namespace, "pods", "holder")
    client.wait_until_ready(namespace, "waits")
    check_views(client, namespace)
