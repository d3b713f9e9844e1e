"""The devices in use at the start: for each card in use the claims on it, each with its results in the API's JSON."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from benchmarks.allocation.hardware import CARDS, Model
from kubeletplugin.hardware.partitions import Scheme

Results = list[dict[str, Any]]
Occupy = Callable[[Model, int, Random], Iterator[Results]]
"""The claims on one card of a node with that model; the caller adds pool and driver."""

SHARE_GIBIBYTES = 4


def one_card(model: Model, index: int, random: Random) -> Iterator[Results]:
    """One claim holds the card."""
    yield [{"device": f"gpu-{index}"}]


def every_card(model: Model, index: int, random: Random) -> Iterator[Results]:
    """One claim holds all cards of the node; it is returned for the first card."""
    if index == 0:
        yield [{"device": f"gpu-{other}"} for other in range(CARDS)]


def full_of_shares(model: Model, index: int, random: Random) -> Iterator[Results]:
    """As many shares of 4Gi as fit on the card."""
    for _ in range(model.gibibytes // SHARE_GIBIBYTES):
        yield [_share(f"gpu-{index}", {"memory": f"{SHARE_GIBIBYTES}Gi"}, random)]


def full_of_our_shares(model: Model, index: int, random: Random) -> Iterator[Results]:
    """As many shares of 4Gi as fit on one of our H100 (81559 MiB: 19)."""
    for _ in range(19):
        consumed = {"memory": f"{SHARE_GIBIBYTES}Gi", "cores": "0", "slots": "1"}
        yield [_share(f"gpu-{index}-share", consumed, random)]


def full_of_partitions(scheme: Scheme) -> Occupy:
    """Partitions allocated at random until no other fits."""

    def occupy(model: Model, index: int, random: Random) -> Iterator[Results]:
        left = dict(scheme.counters)
        partitions = list(scheme.partitions)
        random.shuffle(partitions)
        for partition in partitions:
            if all(left[name] >= drawn for name, drawn in partition.draws.items()):
                for name, drawn in partition.draws.items():
                    left[name] -= drawn
                yield [{"device": f"gpu-{index}-{partition.suffix}"}]

    return occupy


def _share(device: str, consumed: dict[str, str], random: Random) -> dict[str, Any]:
    identity = UUID(int=random.getrandbits(128), version=4)
    return {"device": device, "shareID": str(identity), "consumedCapacity": consumed}
