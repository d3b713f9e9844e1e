"""Simulated nodes for a control plane without kubelets: each has eight cards of one model."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from benchmarks.allocation.hardware import CARDS, MODELS, NODES_PER_FABRIC, SLOTS, Model
from driver.kinds import Offer
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import Json, slice_spec_to
from kubeletplugin.hardware.simulated import Profile, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import build_slices
from tests.simulation.files import MemoryFiles

WHOLE: tuple[Offer, ...] = ("whole",)
"""Whole cards only."""
_CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110"}


def node_name(number: int) -> str:
    """The name of a node; names sort by number."""
    return f"node-{number:05}"


def models(nodes: int) -> list[Model]:
    """The card model of each node, drawn by weight; the same for the same number of nodes."""
    return Random("throughput").choices(MODELS, [model.weight for model in MODELS], k=nodes)


def node(number: int) -> Json:
    """A Node object that is ready."""
    name = node_name(number)
    conditions = [{"type": "Ready", "status": "True", "reason": "Benchmark"}]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": conditions},
    }


def slices(cards: Sequence[Model], offer: Sequence[Offer] = WHOLE) -> list[Json]:
    """The ResourceSlices of the nodes, as the plugin publishes them; ``cards`` has the model of each node."""
    profile = load_profile("h100x8", MemoryFiles())
    return [raw for number, model in enumerate(cards) for raw in _slices(profile, number, model, offer)]


def _slices(profile: Profile, number: int, model: Model, offer: Sequence[Offer]) -> list[Json]:
    names, name = Names(DEFAULT_DRIVER), node_name(number)
    memory = model.gibibytes * 1024
    cards = [
        replace(card, type=model.type, architecture=model.architecture, memory_mib=memory, uuid=f"{name}-{card.index}")
        for card in profile.cards[:CARDS]
    ]
    offered = build_inventory(cards, Fabric(f"fabric-{number // NODES_PER_FABRIC}"), offer, SLOTS, names)
    parts = build_slices(offered.devices, offered.counter_sets, name, names)
    return [{"metadata": {"name": part.name}, "spec": slice_spec_to(replace(part, generation=1))} for part in parts]


def card_request(model: str, gibibytes: int = 0, count: int = 1) -> Json:
    """A claim's request for cards of a model with at least this memory."""
    attributes, capacity = (f'device.{kind}["{DEFAULT_DRIVER}"]' for kind in ("attributes", "capacity"))
    expression = f'{attributes}.type == "{model}"'
    if gibibytes:
        expression += f' && {capacity}.memory.compareTo(quantity("{gibibytes}Gi")) >= 0'
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": f"gpu.{DEFAULT_DRIVER}", "count": count, "selectors": selectors}
    return {"name": "card", "exactly": exactly}
