"""Cards fail, libraries hang, the plugin is killed at a vendor's call, and nodes are powered off."""

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, eventually, eventually_none
from tests.e2e.hardware.conftest import Machines
from tests.e2e.hardware.machines import CardMachine
from tests.e2e.hardware.test_cards import FIRST, MIG, VNPU, config, environment
from tests.e2e.nodes import PLUGIN_NAMESPACE, PLUGINS
from tests.e2e.pods import pod, request, template

GPU_RESET = {"gpu.0.field.230": 1}
"""The first card of NVIDIA's machine asks for a reset (``NVML_GPU_RECOVERY_ACTION_GPU_RESET``)."""
HBM_ERROR = {"chip.0.event.1": "0x80E01801 3 HBM multi-bit error", "chip.0.alarm": 3}
HANGS = {
    "nvidia": {"gpu.0.fault": "hang", "fault.nvmlDeviceGetHandleByUUID": "hang", "fault.nvmlDeviceGetCount_v2": "hang"},
    "ascend": {"chip.0.fault": "hang", "fault.dcmi_get_card_list": "hang"},
}
DRIVER_GONE = {
    "nvidia": {"gpu.0.fault": 9, "fault.nvmlDeviceGetHandleByUUID": 9, "fault.nvmlDeviceGetCount_v2": 9},
    "ascend": {"chip.0.fault": -8008, "fault.dcmi_get_card_list": -8005},
}


def tainted(client: Client, machine: CardMachine) -> dict[str, list[str]]:
    """The keys of the taints on a machine's devices, by the device's name."""
    listed = client.list("resourceslices", fields=f"spec.nodeName={machine.node}")
    devices = [device for it in listed for device in it["spec"].get("devices", [])]
    return {device["name"]: [it["key"] for it in device["taints"]] for device in devices if device.get("taints")}


def reported_health(client: Client, namespace: str, name: str) -> set[str]:
    """The health of a pod's devices in its status (``allocatedResourcesStatus``)."""
    statuses = client.get("pods", name, namespace)["status"].get("containerStatuses", [])
    resources = [it for status in statuses for it in status.get("allocatedResourcesStatus", [])]
    return {device["health"] for it in resources for device in it.get("resources", [])}


@pytest.mark.parametrize(
    ("vendor", "kind", "fault"),
    [("nvidia", "gpu", GPU_RESET), pytest.param("ascend", "npu", HBM_ERROR, marks=pytest.mark.release)],
)
def test_a_fault_taints_the_card_blocks_claims_shows_in_the_pod_and_ends(
    client: Client, machines: Machines, namespace: str, vendor: str, kind: str, fault: dict[str, str | int | None]
) -> None:
    machine: CardMachine = getattr(machines, vendor)
    client.create(namespace, template("first", request(kind, selector=FIRST)), pod("user", "first"))
    client.wait_until_ready(namespace)
    eventually("the pod's device is healthy", lambda: reported_health(client, namespace, "user") == {"Healthy"})
    machine.library.change(fault)
    eventually("the card is tainted", lambda: tainted(client, machine).get(f"{kind}-0") == ["lode.dev/unhealthy"])
    assert all(name.startswith(f"{kind}-0") for name in tainted(client, machine))
    eventually("the pod's status says so", lambda: reported_health(client, namespace, "user") == {"Unhealthy"})
    eventually("an Event says so", lambda: "device is unhealthy" in client.messages(namespace, "user"))
    client.delete(namespace, "pods", "user")
    client.create(namespace, pod("next", "first"))
    eventually("the next pod waits", lambda: "taint" in client.messages(namespace, "next"))
    assert not client.devices(namespace, "next")
    machine.end_faults()
    eventually_none("the taint is gone", lambda: tainted(client, machine))
    client.wait_until_ready(namespace, "next")


@pytest.mark.parametrize(
    ("vendor", "device", "lost"),
    [
        ("nvidia", "gpu-1", {"gpu.1.fault": 15}),
        pytest.param("ascend", "npu-1", {"chip.2.fault": -8008}, marks=pytest.mark.release),
    ],
)
def test_a_card_that_does_not_answer_stays_published_as_unhealthy_when_the_plugin_starts_again(
    client: Client, machines: Machines, vendor: str, device: str, lost: dict[str, str | int | None]
) -> None:
    machine: CardMachine = getattr(machines, vendor)
    machine.library.change(lost)
    eventually("the card is tainted", lambda: tainted(client, machine).get(device) == ["lode.dev/unhealthy"])
    on_node = f"--field-selector=spec.nodeName={machine.node}"
    client.kubectl("-n", PLUGIN_NAMESPACE, "delete", "pod", "--selector", PLUGINS, on_node)
    flavors.wait_until_installed(client)
    assert tainted(client, machine).get(device) == ["lode.dev/unhealthy"]
    machine.end_faults()
    eventually_none("the taint is gone", lambda: tainted(client, machine))


@pytest.mark.parametrize("faults", [HANGS, DRIVER_GONE], ids=["hangs", "is gone"])
def test_pods_end_while_the_driver_does_not_answer_and_their_instances_go_when_it_does(
    client: Client, machines: Machines, namespace: str, faults: dict[str, dict[str, str | int | None]]
) -> None:
    client.create(namespace, template("mig", MIG), pod("mig", "mig"), template("vnpu", VNPU), pod("vnpu", "vnpu"))
    client.wait_until_ready(namespace)
    machines.nvidia.library.change(faults["nvidia"])
    machines.ascend.library.change(faults["ascend"])
    client.delete(namespace, "pods")
    assert {key.split(".")[2] for key in machines.changed_by_claims() if key.count(".") == 3} == {"gi", "vdev"}
    for machine in machines:
        machine.end_faults()
    eventually_none("the instances are destroyed", machines.changed_by_claims)


@pytest.mark.parametrize(
    ("vendor", "wanted"), [("nvidia", MIG), pytest.param("ascend", VNPU, marks=pytest.mark.release)]
)
def test_killed_at_a_call_the_next_start_leaves_what_live_claims_have(
    client: Client, machines: Machines, namespace: str, vendor: str, wanted: dict[str, object]
) -> None:
    machine: CardMachine = getattr(machines, vendor)
    client.create(namespace, template("part", wanted), pod("lasting", "part"))
    client.wait_until_ready(namespace)
    for wave, call in enumerate((5, 12)):
        kill_at(machine, call)
        client.create(namespace, pod(f"new-{wave}", "part"))
        client.wait_until_ready(namespace)
        kill_at(machine, call)
        client.delete(namespace, "pods", f"new-{wave}")
        eventually("one is left", lambda: len(instances_on(machine)) == 1)
    assert client.get("pods", "lasting", namespace)["status"]["containerStatuses"][0]["restartCount"] == 0


def kill_at(machine: CardMachine, call: int) -> None:
    """Let the plugin die at its call of the library after this many."""
    machine.library.change({"kill": int(machine.library.state()["calls"]) + call})


def instances_on(machine: CardMachine) -> list[str]:
    """The MIG instances and vNPUs that exist."""
    state = machine.library.state()
    return [key for key in state if key.count(".") == 3 and (".gi." in key or ".vdev." in key)]


def test_after_power_is_back_each_claim_has_its_instance_and_its_daemon_again(
    client: Client, machines: Machines, namespace: str
) -> None:
    share = request("gpu-share", selector='device.attributes["lode.dev"].index == 1', memory="8Gi")
    claims = {"mig": template("mig", MIG), "vnpu": template("vnpu", VNPU)}
    claims["mps"] = template("mps", share, config=[config("mps")])
    client.create(namespace, *claims.values(), *(pod(name, name) for name in claims))
    client.wait_until_ready(namespace)
    before = machines.changed_by_claims()
    for machine in machines:
        machine.power_cycle()
    eventually("every pod was restarted", lambda: all(restarts(client, namespace, name) for name in claims))
    client.wait_until_ready(namespace)
    eventually("the hardware is as before", lambda: machines.changed_by_claims() == before)
    assert environment(client, namespace, "mig")["LODE_REQUEST_C0_CARD_0_MIG_UUID"].startswith("MIG-")


def restarts(client: Client, namespace: str, name: str) -> int:
    """How often a pod's container was restarted."""
    (status,) = client.get("pods", name, namespace)["status"]["containerStatuses"]
    return int(status["restartCount"])
