"""The nodes of the benchmarks: their slices as JSON text, with placeholders for node and fabric."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from driver.kinds import EVERY_OFFER
from driver.model import AttributeValue, Capacity, CounterConsumption, CounterSet, Device, RequestPolicy, Version
from driver.names import DEFAULT_DRIVER, NUMA_NODE, PCIE_ROOT, Names
from driver.quantity import Quantity
from driver.wire import slice_spec_to
from kubeletplugin.hardware.partitions import H100_80GB, Partition, Scheme
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.hardware.simulated.schemes import SCHEMES
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import build_slices
from tests.simulation.files import MemoryFiles

NODE = "@node@"
FABRIC = "@fabric@"
DRIVER = "gpu.example.com"
NIC_DRIVER = "nic.example.com"
CPU_DRIVER = "cpu.example.com"
CARDS = 8
"""Per node."""
NODES_PER_FABRIC = 32
SLOTS = 20
"""The number of shares that one of our cards can have."""


@dataclass(frozen=True, slots=True)
class Model:
    """A card model; ``weight`` is the percentage of nodes with it."""

    type: str
    architecture: str
    gibibytes: int
    driver_version: str
    weight: int


MODELS = (
    Model("H100", "Hopper", 80, "570.86.15", 40),
    Model("A100", "Ampere", 80, "550.54.14", 25),
    Model("L40S", "Ada", 48, "550.54.14", 15),
    Model("H200", "Hopper", 141, "570.86.15", 10),
    Model("T4", "Turing", 16, "535.129.3", 10),
)

_SMALLEST = H100_80GB.partitions[0]
MIG = replace(
    H100_80GB,
    partitions=(replace(_SMALLEST, profile=f"{_SMALLEST.profile}.me"), *H100_80GB.partitions),
)
"""The MIG placements including the one with the media engines, which Lode does not offer: 19 per card."""


Offered = tuple[Sequence[Device], Sequence[CounterSet]]
"""The devices of a node, and the counter sets that they consume."""


def amount(text: str) -> Quantity:
    """Parse a quantity."""
    return Quantity.parse(text)


def slices(model: Model, make: Callable[[Model], Offered], driver: str) -> str:
    """The ResourceSlices of a node, one line of JSON each, with the placeholders ``NODE`` and ``FABRIC``."""
    parts = build_slices(*make(model), NODE, Names(driver))
    return "".join(
        json.dumps(
            {
                "kind": "ResourceSlice",
                "apiVersion": "resource.k8s.io/v1",
                "metadata": {"name": part.name},
                "spec": slice_spec_to(replace(part, generation=1)),
            }
        )
        + "\n"
        for part in parts
    )


def whole(model: Model) -> Offered:
    """Eight cards, four on each NUMA node."""
    return [_card(model, index) for index in range(CARDS)], ()


def rooted(model: Model) -> Offered:
    """Eight cards, each on a PCIe root of its own."""
    return [_placed(_card(model, index), index) for index in range(CARDS)], ()


def nics(_: Model) -> Offered:
    """Eight network cards, each on the PCIe root of a card; they are numbered from the last one on."""
    return [_placed(Device(f"nic-{number}"), CARDS - 1 - number) for number in range(CARDS)], ()


def cpus(_: Model) -> Offered:
    """The processors of each NUMA node as one device, of which claims take some."""
    policy = RequestPolicy(default=amount("1"), minimum=amount("1"), maximum=amount("64"), step=amount("1"))
    cores = {"cores": Capacity(amount("64"), policy)}
    numbers = range(2)
    return [Device(f"numa-{at}", {NUMA_NODE: at}, cores, allow_multiple=True) for at in numbers], ()


def _placed(device: Device, root: int) -> Device:
    place: dict[str, AttributeValue] = {PCIE_ROOT: f"pci{root:04}:00", NUMA_NODE: root // (CARDS // 2)}
    return replace(device, attributes={**device.attributes, **place})


def shared(model: Model) -> Offered:
    """Eight cards, each of which any number of claims can share by memory."""
    memory = amount(f"{model.gibibytes}Gi")
    policy = RequestPolicy(default=memory, minimum=amount("1Mi"), maximum=memory, step=amount("1Mi"))
    capacity = {"memory": Capacity(memory, policy)}
    cards = [_card(model, index, "gpu-share") for index in range(CARDS)]
    return [replace(card, capacity=capacity, allow_multiple=True) for card in cards], ()


def mig(model: Model) -> Offered:
    """Eight H100, each published as its 19 MIG placements."""
    return _partitioned(replace(model, type="H100"), MIG, with_whole=False)


def vnpu(model: Model) -> Offered:
    """Eight Ascend 310P, each published whole and as the slots of the seven templates."""
    return _partitioned(
        replace(model, type="310P", architecture="DaVinci", gibibytes=24), SCHEMES["vnpu-310p"], with_whole=True
    )


@cache
def cards(_: Model) -> Offered:
    """Eight H100 as Lode publishes them: whole, shared and as MIG partitions, with one counter set per card."""
    profile = load_profile("h100x8", MemoryFiles())
    numbered = [replace(card, uuid=f"{NODE}-{card.index}") for card in profile.cards]
    inventory = build_inventory(numbered, Fabric(FABRIC), EVERY_OFFER, SLOTS, Names(DEFAULT_DRIVER))
    return inventory.devices, inventory.counter_sets


def _card(model: Model, index: int, kind: str = "gpu") -> Device:
    own: dict[str, AttributeValue] = {
        "kind": kind,
        "index": index,
        "type": model.type,
        "architecture": model.architecture,
        "uuid": f"{NODE}-{index}",
        "numa": index // (CARDS // 2),
        "ibCluster": FABRIC,
        "driverVersion": Version(model.driver_version),
    }
    return Device(
        f"gpu-{index}",
        {f"{DRIVER}/{name}": value for name, value in own.items()},
        {"memory": Capacity(amount(f"{model.gibibytes}Gi")), "cores": Capacity(amount("100"))},
    )


def _partitioned(model: Model, scheme: Scheme, *, with_whole: bool) -> Offered:
    offered: list[Device] = []
    for index in range(CARDS):
        card = _card(model, index)
        if with_whole:
            whole = {**card.attributes, f"{DRIVER}/profile": ""}
            offered.append(replace(card, attributes=whole, consumes=(_draws(card.name, scheme.counters),)))
        offered += [_partition(card, partition) for partition in scheme.partitions]
    return offered, [CounterSet(f"gpu-{index}", _units(scheme.counters)) for index in range(CARDS)]


def _partition(card: Device, partition: Partition) -> Device:
    return Device(
        f"{card.name}-{partition.suffix}",
        {**card.attributes, f"{DRIVER}/kind": "partition", f"{DRIVER}/profile": partition.profile},
        {"memory": Capacity(amount(f"{partition.memory_mib}Mi"))},
        (_draws(card.name, partition.draws),),
    )


def _draws(card: str, draws: Mapping[str, int]) -> CounterConsumption:
    return CounterConsumption(card, _units(draws))


def _units(counters: Mapping[str, int]) -> dict[str, Quantity]:
    return {name: amount(f"{n}Mi" if name == "memory" else str(n)) for name, n in counters.items()}
