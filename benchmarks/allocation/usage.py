"""What is in use at the start: per card that is taken, the claims on it, each with its results in the API's JSON."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from benchmarks.allocation.hardware import CARDS, Model
from kubeletplugin.hardware.partitions import Scheme

Results = list[dict[str, Any]]
Occupy = Callable[[Model, int, Random], Iterator[Results]]
"""The claims on one card of a node of that model; pool and driver are filled in by the caller."""

SHARE_GIBIBYTES = 4


def one_card(model: Model, index: int, random: Random) -> Iterator[Results]:
    """The card has one user."""
    yield [{"device": f"gpu-{index}"}]


def every_card(model: Model, index: int, random: Random) -> Iterator[Results]:
    """All cards of the node have the same user: it comes with the first of them."""
    if index == 0:
        yield [{"device": f"gpu-{other}"} for other in range(CARDS)]


def full_of_shares(model: Model, index: int, random: Random) -> Iterator[Results]:
    """As many shares of 4Gi as the card holds."""
    for _ in range(model.gibibytes // SHARE_GIBIBYTES):
        yield [_share(f"gpu-{index}", {"memory": f"{SHARE_GIBIBYTES}Gi"}, random)]


def full_of_our_shares(model: Model, index: int, random: Random) -> Iterator[Results]:
    """As many shares of 4Gi as one of our H100 holds (81559 MiB: 19)."""
    for _ in range(19):
        consumed = {"memory": f"{SHARE_GIBIBYTES}Gi", "cores": "0", "slots": "1"}
        yield [_share(f"gpu-{index}-share", consumed, random)]


def cut_up(scheme: Scheme) -> Occupy:
    """Partitions taken at random until no other fits."""

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
