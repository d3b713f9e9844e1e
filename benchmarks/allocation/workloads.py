"""The workloads: their nodes, the requests of their claims, and the devices in use at the start."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from benchmarks.allocation import hardware, usage
from benchmarks.allocation.hardware import CPU_DRIVER, DRIVER, MODELS, NIC_DRIVER, Model, Offered
from driver.names import DEFAULT_DRIVER, NUMA_NODE, PCIE_ROOT, Names
from driver.wire import Json
from kubeletplugin.hardware.simulated.schemes import SCHEMES

SHAPES = 200
"""The number of different claims in the mixed form."""
_OUR_CLASSES = Path(__file__).parents[2] / "manifests" / "base" / "deviceclasses.yaml"


@dataclass(frozen=True)
class Workload:
    """Nodes and claims of one kind.

    ``shape`` returns the claim spec number ``i`` of the mixed form; different numbers give different specs.
    """

    name: str
    make: Callable[[Model], Offered]
    claim: Json
    shape: Callable[[int, Random], Json]
    occupy: usage.Occupy = usage.one_card
    driver: str = DRIVER
    pods: Mapping[str, int] = field(default_factory=lambda: {"repeated": 256, "mixed": 1000, "churn": 512})
    in_use: tuple[str, ...] = ("0", "90")
    """Percent of the cards; ``90p``: whole nodes."""
    models: tuple[Model, ...] = MODELS
    largest: int = 5000
    """The most nodes by default: with 5,000, writing and reading the slices can take minutes."""
    besides: Mapping[str, Callable[[Model], Offered]] = field(default_factory=dict)
    """The devices of other drivers on each node, by driver. Those in use at the start are of ``driver``."""

    @property
    def names(self) -> Names:
        """The names of a controller that allocates the devices of all these drivers."""
        return Names(self.driver, also_allocates=tuple(self.besides))

    def classes(self) -> list[Json]:
        """The DeviceClass objects that its claims request."""
        if self.driver == DEFAULT_DRIVER:
            return [{"kind": raw["kind"], **raw} for raw in yaml.safe_load_all(_OUR_CLASSES.read_text())]
        return [
            {
                "kind": "DeviceClass",
                "apiVersion": "resource.k8s.io/v1",
                "metadata": {"name": driver},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
            }
            for driver in (DRIVER, *self.besides)
        ]

    def occupied_by(self, in_use: str) -> usage.Occupy:
        """How the cards in use are held."""
        return usage.every_card if in_use.endswith("p") else self.occupy


_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
_MEMORY = f'device.capacity["{DRIVER}"].memory'
_IB_CLUSTER = {"matchAttribute": f"{DRIVER}/ibCluster"}


def request(*selectors: str, count: int = 1, memory: str = "", device_class: str = DRIVER, name: str = "cards") -> Json:
    """A request in the API's JSON, with the defaults that the API server would set."""
    exactly: dict[str, Any] = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {"name": name, "exactly": exactly}


def spec(*requests: Json, constraints: Sequence[Json] = ()) -> Json:
    """The spec of a claim."""
    devices: dict[str, Any] = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    return {"devices": devices}


def by_type(type: str) -> str:
    """A selector for a card type."""
    return f'{_ATTRIBUTES}.type == "{type}"'


def at_least(memory: str) -> str:
    """A selector for a minimum of memory."""
    return f'{_MEMORY}.compareTo(quantity("{memory}")) >= 0'


def _some_card(i: int, random: Random) -> list[str]:
    """Selectors for one model, written in one of five ways; the memory makes the text of each number different."""
    model = random.choice(MODELS)
    memory = at_least(f"{1024 + 16 * i}Mi")
    wordings = (
        [f"{by_type(model.type)} && {memory}"],
        [by_type(model.type), memory],
        [f'{_ATTRIBUTES}.type in ["{model.type}", "B200"] && {memory}'],
        [f'{_ATTRIBUTES}.architecture == "{model.architecture}" && {memory}'],
        [f'{_ATTRIBUTES}.driverVersion.compareTo(semver("535.0.0")) >= 0 && {memory} && {by_type(model.type)}'],
    )
    return wordings[i % len(wordings)]


def _eight(*selectors: str, count: int = 8) -> Json:
    return spec(request(*selectors, count=count), constraints=[_IB_CLUSTER])


def _halves(*selectors: str, count: int = 4) -> Json:
    constraints: list[Json] = [
        {"requests": ["left"], "matchAttribute": f"{DRIVER}/numa"},
        {"requests": ["right"], "matchAttribute": f"{DRIVER}/numa"},
        _IB_CLUSTER,
    ]
    left, right = (request(*selectors, count=count, name=name) for name in ("left", "right"))
    return spec(left, right, constraints=constraints)


def _beside_nic(*selectors: str) -> Json:
    """A card and the network card on its PCIe root."""
    nic = request(device_class=NIC_DRIVER, name="nic")
    return spec(request(*selectors), nic, constraints=[{"matchAttribute": PCIE_ROOT}])


def _on_numa_node(*selectors: str, count: int = 2, cores: int = 16) -> Json:
    """Cards, as many network cards, and some processors, all on one NUMA node."""
    nics = request(count=count, device_class=NIC_DRIVER, name="nics")
    processors = request(device_class=CPU_DRIVER, name="cpus")
    processors["exactly"]["capacity"] = {"requests": {"cores": str(cores)}}
    return spec(request(*selectors, count=count), nics, processors, constraints=[{"matchAttribute": NUMA_NODE}])


def _profile(name: str, *more: str) -> Json:
    return spec(request(f'{_ATTRIBUTES}.profile == "{name}"', *more))


def _small(i: int) -> str:
    """A selector that matches every partition, with a different text for each ``i``."""
    return at_least(f"{16 + i}Mi")


_MIG = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
_VNPU = ("vir01", "vir02", "vir02_1c", "vir04", "vir04_3c")
_OURS = f'device.capacity["{DEFAULT_DRIVER}"].memory'


def _our_shape(i: int, random: Random) -> Json:
    selector = f'{_OURS}.compareTo(quantity("{16 + i}Mi")) >= 0'
    match i % 4:
        case 0:
            return spec(request(selector, device_class=f"gpu.{DEFAULT_DRIVER}"))
        case 1:
            profile = f'device.attributes["{DEFAULT_DRIVER}"].profile == "{random.choice(_MIG)}"'
            return spec(request(profile, selector, device_class=f"mig.{DEFAULT_DRIVER}"))
        case _:
            return spec(request(selector, memory=f"{1 + i % 16}Gi", device_class=f"gpu-share.{DEFAULT_DRIVER}"))


_WHOLE_NODES = {"repeated": 256, "mixed": 400, "churn": 512}
_H100 = (f"{by_type('H100')} && {at_least('40Gi')}",)
_HOPPER = f'{_ATTRIBUTES}.architecture == "Hopper"'

WORKLOADS = (
    Workload(
        "single",
        hardware.whole,
        spec(request(*_H100)),
        lambda i, random: spec(request(*_some_card(i, random))),
    ),
    Workload(
        "ib8",
        hardware.whole,
        _eight(by_type("H100")),
        lambda i, random: _eight(*_some_card(i, random), count=random.choice((2, 4, 8))),
        pods=_WHOLE_NODES,
        in_use=("0", "30", "90p", "90"),
    ),
    Workload(
        "numa8",
        hardware.whole,
        _halves(),
        lambda i, random: _halves(*_some_card(i, random), count=random.choice((1, 2, 3, 4))),
        pods=_WHOLE_NODES,
        in_use=("0", "30", "90"),
    ),
    Workload(
        "vgpu",
        hardware.shared,
        spec(request(_HOPPER, memory="4Gi")),
        lambda i, random: spec(request(*_some_card(i, random), memory=f"{1 + i % 16}Gi")),
        occupy=usage.full_of_shares,
    ),
    Workload(
        "mig",
        hardware.mig,
        _profile("2g.20gb"),
        lambda i, random: _profile(random.choice(_MIG), _small(i)),
        occupy=usage.full_of_partitions(hardware.MIG),
        models=MODELS[:1],
    ),
    Workload(
        "vnpu",
        hardware.vnpu,
        _profile("vir02"),
        lambda i, random: _profile(random.choice(_VNPU), _small(i)),
        occupy=usage.full_of_partitions(SCHEMES["vnpu-310p"]),
        models=MODELS[:1],
    ),
    Workload(
        "cards",
        hardware.cards,
        spec(request(memory="4Gi", device_class=f"gpu-share.{DEFAULT_DRIVER}")),
        _our_shape,
        occupy=usage.full_of_our_shares,
        driver=DEFAULT_DRIVER,
        in_use=("0", "50", "90"),
        models=MODELS[:1],
        largest=1000,
    ),
    Workload(
        "nic",
        hardware.rooted,
        _beside_nic(*_H100),
        lambda i, random: _beside_nic(*_some_card(i, random)),
        besides={NIC_DRIVER: hardware.nics},
    ),
    Workload(
        "numa3",
        hardware.rooted,
        _on_numa_node(by_type("H100")),
        lambda i, random: _on_numa_node(*_some_card(i, random), count=random.choice((1, 2, 4)), cores=1 + i % 32),
        pods=_WHOLE_NODES,
        besides={NIC_DRIVER: hardware.nics, CPU_DRIVER: hardware.cpus},
    ),
    Workload(
        "gang",
        hardware.whole,
        spec(request(by_type("H100"), count=8)),
        lambda i, random: spec(request(*_some_card(i, random), count=8)),
        pods={"repeated": 64, "mixed": 64, "churn": 64},
        in_use=("0", "90p"),
    ),
)
