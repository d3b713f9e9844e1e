"""Cards that a device plugin hands out, too."""

from tests.e2e.client import Client, eventually, eventually_none
from tests.e2e.hardware import device_plugin
from tests.e2e.hardware.conftest import Machines
from tests.e2e.hardware.test_faults import tainted
from tests.e2e.pods import pod, request, template

RESOURCE = "nvidia.com/gpu"


def test_a_card_of_a_device_plugin_is_tainted_until_the_plugin_and_its_pods_have_let_go_of_it(
    client: Client, machines: Machines, namespace: str
) -> None:
    machine = machines.nvidia
    listed = client.list("resourceslices", fields=f"spec.nodeName={machine.node}")
    (uuid,) = [
        device["attributes"]["uuid"]["string"]
        for it in listed
        for device in it["spec"].get("devices", [])
        if device["name"] == "gpu-0"
    ]
    client.create(namespace, device_plugin.pod(machine.node, RESOURCE, uuid))
    eventually("the card is tainted", lambda: tainted(client, machine).get("gpu-0") == ["lode.dev/other-driver"])
    assert all(name.startswith("gpu-0") for name in tainted(client, machine))

    theirs = pod("theirs")
    theirs["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: "1"}
    client.create(namespace, theirs, template("card", request()), pod("ours", "card"))
    client.wait_until_ready(namespace)
    assert {device.rpartition("/")[2] for device in client.devices(namespace, "ours")} != {"gpu-0"}

    client.delete(namespace, "pods", device_plugin.NAME)
    eventually(
        "the device plugin has no devices",
        lambda: client.get("nodes", machine.node)["status"]["capacity"].get(RESOURCE) == "0",
    )
    assert tainted(client, machine).get("gpu-0") == ["lode.dev/other-driver"]
    client.delete(namespace, "pods", "theirs")
    eventually_none("the taint is gone", lambda: tainted(client, machine))
