"""What starting a gang costs the thread that decides: the whole controller, on the API in memory and a virtual clock.

Measured is the CPU of everything that thread does, taking in what has changed as well as deciding, from the moment when
the last member is seen until no member has its gate any more.
"""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.allocation.table import lines
from benchmarks.wholeloop import CARDS, NAMES, WholeLoop
from controller.__main__ import COLLECTION_THRESHOLDS
from driver.kube.api import Object
from driver.settings import Settings

NAME = "whole loop"
SIZES = (60, 120, 240, 480, 1_000)
SECONDS = 3.0
"""What the largest gang may cost."""
GROWTH = 1.5
"""How much more a member of the largest gang may cost than one of a gang of a quarter of its size."""
_PATIENCE = 60.0
"""Seconds of the virtual clock in which the gang has to start."""


@dataclass(frozen=True)
class Start:
    """What one start cost.

    Attributes:
        seconds: CPU of the deciding thread.
        let_go: members without their gate at the end.
    """

    members: int
    seconds: float
    let_go: int


class _Cluster(WholeLoop):
    """Nodes that gangs are started on."""

    def __init__(self, nodes: int):
        super().__init__(Settings())
        for number in range(nodes):
            self.add_node(f"node-{number}")
        self.start()

    def add_member(self, name: str, members: int) -> None:
        """A pod with a claim for all cards of a node, in a gang of so many members."""
        parameters: Object = {
            "apiVersion": f"{NAMES.driver}/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": "gang", "minAvailable": members},
            "topology": [{"nodeLabel": "fabric"}],
        }
        self.add_pod(name, CARDS, parameters=parameters)

    def let_go(self) -> int:
        """How many pods have no gate."""
        return sum(not pod.gates for pod in self.controller.state.pods.values())


def starts(sizes: Sequence[int] = SIZES) -> Iterator[Start]:
    """Start a gang of each size, each on a cluster with a quarter more nodes than the gang needs."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    for members in sizes:
        cluster = _Cluster(members * 5 // 4)
        for number in range(members - 1):
            cluster.add_member(f"gang-{number}", members)
        cluster.settle(_PATIENCE)
        cluster.seconds = 0.0
        cluster.add_member(f"gang-{members - 1}", members)
        cluster.settle(_PATIENCE)
        yield Start(members, cluster.seconds, cluster.let_go())


def table(made: Sequence[Start]) -> str:
    """Seconds of CPU of each start, and milliseconds for each member."""
    header = ["gang", "let go", "whole loop, s", "ms a member", "bar"]
    rows = [
        [f"{one.members} pods", str(one.let_go), f"{one.seconds:.2f}", f"{_each(one):.2f}", verdict(one, made)]
        for one in made
    ]
    return lines(header, rows)


def verdict(one: Start, made: Sequence[Start]) -> str:
    """``met`` if the start costs at most three seconds, and each member little more than one of a small gang."""
    if one.let_go != one.members:
        return "WRONG"
    if one.seconds > SECONDS:
        return f"missed: {one.seconds:.1f} s"
    smaller = [other for other in made if 4 * other.members <= one.members]
    growth = _each(one) / _each(smaller[-1]) if smaller else 1.0
    return "met" if growth <= GROWTH else f"missed: {growth:.1f} times as much for each member"


def _each(one: Start) -> float:
    return 1000 * one.seconds / one.members
