"""Claims on the vendors' cards: what exists on the hardware, and what containers see of it."""

import pytest

from tests.e2e.client import Client, Object, eventually, eventually_none
from tests.e2e.hardware.conftest import Machines
from tests.e2e.pods import pod, request, template
from tests.fakes.dcmi import vnpus
from tests.fakes.nvml import instances
from tests.fakes.nvml.models import H100

FIRST = 'device.attributes["lode.dev"].index == 0'
"""Selects the devices of one card of each machine."""
MIG = request("mig", selector=f'{FIRST} && device.attributes["lode.dev"].profile == "1g.10gb"')
VNPU = request("vnpu", selector=f'{FIRST} && device.attributes["lode.dev"].profile == "vir02"')


def config(sharing: str) -> Object:
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "sharing": sharing}
    return {"opaque": {"driver": "lode.dev", "parameters": parameters}}


def environment(client: Client, namespace: str, name: str) -> dict[str, str]:
    """The variables of a running container."""
    lines = client.exec(namespace, name, "main", "env").splitlines()
    return dict(line.split("=", 1) for line in lines)


def device_files(client: Client, namespace: str, name: str) -> set[str]:
    """The device files of vendors in a running container."""
    script = "cd /dev; find . -name 'nvidia*' -type c -o -name 'davinci*' -o -name 'vdavinci*' | sort"
    return {line.removeprefix("./") for line in client.exec(namespace, name, "main", "sh", "-c", script).split()}


def test_every_card_is_published_with_its_numa_node_and_the_rail_of_its_adapter(
    client: Client, machines: Machines, namespace: str
) -> None:
    listed = client.list("resourceslices", fields=f"spec.nodeName={machines.nvidia.node}")
    devices = [device["attributes"] for it in listed for device in it["spec"].get("devices", [])]
    cards = [it for it in devices if it["kind"]["string"] == "gpu"]
    found = sorted((it["index"]["int"], it["numaNode"]["int"], it["rail"]["string"]) for it in cards)
    assert found == [(number, number, f"rail-{number}") for number in range(machines.nvidia.cards)]
    assert {it["model"]["string"] for it in cards} == {H100.name}


def test_a_mig_instance_exists_as_long_as_its_claim_and_its_container_is_told_its_uuid(
    client: Client, machines: Machines, namespace: str
) -> None:
    library = machines.nvidia.library
    client.create(namespace, template("mig", MIG), pod("user", "mig"))
    client.wait_until_ready(namespace)
    assert [(profile, complete) for profile, _, complete in instances(library.state(), 0)] == [("1g.10gb", True)]
    (instance,) = (key.split(".")[3] for key in library.state() if key.startswith("gpu.0.gi.") and key.count(".") == 3)
    uuid = f"MIG-00000000-{int(instance):04x}-5000-8000-000000000000"
    assert environment(client, namespace, "user")["LODE_REQUEST_C0_CARD_0_MIG_UUID"] == uuid
    files = device_files(client, namespace, "user")
    assert {file for file in files if not file.startswith("nvidia-caps/")} == {
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
    }
    assert len([file for file in files if file.startswith("nvidia-caps/")]) == 2
    client.delete(namespace, "pods")
    eventually_none("the instance is destroyed", lambda: instances(library.state(), 0))
    eventually("MIG mode is off", lambda: library.state()["gpu.0.mig"] == "0 0")


def test_a_vnpu_exists_as_long_as_its_claim_and_its_container_has_its_device_file(
    client: Client, machines: Machines, namespace: str
) -> None:
    library = machines.ascend.library
    client.create(namespace, template("vnpu", VNPU), pod("user", "vnpu"))
    client.wait_until_ready(namespace)
    ((number, profile),) = vnpus(library.state(), 0).items()
    assert profile == "vir02"
    assert device_files(client, namespace, "user") == {"davinci_manager", f"davinci{number}"}
    assert environment(client, namespace, "user")["ASCEND_VISIBLE_DEVICES"] == "void"
    client.delete(namespace, "pods")
    eventually_none("the vNPU is destroyed", lambda: vnpus(library.state(), 0))


SHARES = {"a": ("30Gi", "30"), "b": ("49Gi", "70")}
"""Memory and cores of two shares that fill a card nearly."""


@pytest.mark.parametrize("sharing", ["none", "timeSlicing", "mps", "hamiCore"])
def test_shares_of_one_card_get_limits_that_add_up_to_no_more_than_the_card(
    client: Client, machines: Machines, namespace: str, sharing: str
) -> None:
    requests = {
        name: request("gpu-share", selector=FIRST, memory=memory, cores=cores)
        for name, (memory, cores) in {**SHARES, "surplus": ("1Gi", "1")}.items()
    }
    client.apply(namespace, *(template(name, it, config=[config(sharing)]) for name, it in requests.items()))
    client.create(namespace, *(pod(name, name) for name in SHARES))
    client.wait_until_ready(namespace)
    client.create(namespace, pod("surplus", "surplus"))
    told = {name: environment(client, namespace, name) for name in SHARES}
    memory = [int(of["LODE_REQUEST_C0_CARD_0_MEMORY_MIB"]) for of in told.values()]
    cores = [int(of["LODE_REQUEST_C0_CARD_0_CORES"]) for of in told.values()]
    assert memory == [30 * 1024, 49 * 1024]
    assert sum(memory) <= H100.memory_mib
    assert sum(cores) == 100
    assert [limits(sharing, of) for of in told.values()] == [
        expected(sharing, mib, percent) for mib, percent in zip(memory, cores, strict=True)
    ]
    eventually("the card is full", lambda: "SchedulingGated" in client.messages(namespace, "surplus"))
    assert not client.devices(namespace, "surplus")
    if sharing == "mps":
        uuid = told["a"]["LODE_REQUEST_C0_CARD_0_UUID"]
        assert machines.nvidia.services() == [f"lode.dev-mps-{uuid}.service"]
        assert machines.nvidia.library.state()["gpu.0.computemode"] == "3"
        assert client.exec(namespace, "a", "main", "ls", f"/tmp/nvidia-mps-{uuid}").split() == ["control"]


MPS = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
HAMI = ("CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT_0")


def limits(sharing: str, variables: dict[str, str]) -> list[str]:
    """What a strategy tells the programs of a container to use at most."""
    assert not [name for name in variables if name.startswith("CUDA_") and sharing in ("none", "timeSlicing")]
    return [variables[name] for name in {"mps": MPS, "hamiCore": HAMI}.get(sharing, ())]


def expected(sharing: str, mib: int, percent: int) -> list[str]:
    """``limits`` of a share."""
    strategies = {"mps": [f"0={mib}M", str(percent)], "hamiCore": [f"{mib}m", str(percent)]}
    return strategies.get(sharing, [])
