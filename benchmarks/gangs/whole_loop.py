"""What starting a gang costs the thread that decides: the whole controller, on the API in memory and a virtual clock.

Measured is the CPU of everything that thread does, taking in what has changed as well as deciding, from the moment when
the last member is seen until no member has its gate any more.
"""

import gc
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.allocation.table import lines
from controller.__main__ import COLLECTION_THRESHOLDS
from controller.loop import Controller, Ports
from controller.state import StateDelta
from controller.writing import Channel, Lane, SteppedWrites, WriteResult
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.names import Names
from driver.observe import Metrics, logger
from driver.settings import Settings
from memoryapi import MemoryApi
from simulation.clock import VirtualClock

NAME = "whole loop"
SIZES = (60, 120, 240, 480, 1_000)
SECONDS = 3.0
"""What the largest gang may cost."""
GROWTH = 1.5
"""How much more a member of the largest gang may cost than one of a gang of a quarter of its size."""
CARDS = 8
_NAMESPACE = "default"
_NAMES = Names()
_WRITTEN = 16
"""How many writes end between two looks at what has arrived."""
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


class _Term:
    """A leader whose term does not end."""

    term: int | None = 1


class _Cluster:
    """A controller on a cluster of its own; what arrives is taken in as by the program, decoded before."""

    def __init__(self, nodes: int):
        self._clock = VirtualClock()
        self._api = MemoryApi(self._clock)
        self._inbox: deque[StateDelta | WriteResult] = deque()
        settings = Settings()
        bounds = {Lane.PLACING: settings.controller.writes_in_flight, Lane.REPORTING: 1}
        self._writes = SteppedWrites(Channel(self._api, _Term(), self._inbox.append, self._clock), bounds=bounds)
        self.seconds = 0.0
        self._add_class()
        for number in range(nodes):
            self._add_node(f"node-{number}")
        self._controller = Controller(
            Ports(self._api, self._writes, self._clock, Metrics(), logger("bench")),
            settings,
            "bench",
            deliver=self._inbox.append,
        )
        self._controller.lead(1)

    def _add_class(self) -> None:
        text = f'device.driver == "{_NAMES.driver}"'
        selectors = [{"cel": {"expression": text}}]
        self._api.create(DEVICE_CLASSES, {"metadata": {"name": "cards"}, "spec": {"selectors": selectors}})

    def _add_node(self, name: str) -> None:
        node = self._api.create(NODES, {"metadata": {"name": name, "labels": {"fabric": "a"}}})
        allocatable = {"cpu": "128", "memory": "2Ti", "pods": "110"}
        node["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
        self._api.update(NODES, node, "status")
        pool = {"name": _NAMES.pool(name), "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{card}", "attributes": {"kind": {"string": "gpu"}}} for card in range(CARDS)]
        spec = {"driver": _NAMES.driver, "nodeName": name, "pool": pool, "devices": devices}
        self._api.create(RESOURCE_SLICES, {"metadata": {"name": f"{name}-{_NAMES.driver}"}, "spec": spec})

    def add_member(self, name: str, members: int) -> None:
        """A pod with a claim for all cards of a node, in a gang of so many members."""
        parameters: Object = {
            "apiVersion": f"{_NAMES.driver}/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": "gang", "minAvailable": members},
            "topology": [{"nodeLabel": "fabric"}],
        }
        devices = {
            "requests": [{"name": "cards", "exactly": {"deviceClassName": "cards", "count": CARDS}}],
            "config": [{"opaque": {"driver": _NAMES.driver, "parameters": parameters}}],
        }
        self._api.create(
            RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": {"devices": devices}}
        )
        spec = {
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}],
            "schedulingGates": [{"name": _NAMES.gate}],
            "resourceClaims": [{"name": "cards", "resourceClaimName": name}],
        }
        self._api.create(PODS, {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}, _NAMESPACE)

    def settle(self, seconds: float) -> None:
        """Work until nothing is due for so many seconds."""
        until = self._clock.monotonic() + seconds
        while True:
            if self._work():
                continue
            times = (self._controller.next_due(), self._writes.next_due())
            due = min((moment for moment in times if moment is not None), default=until)
            if due >= until:
                self._clock.advance(until - self._clock.monotonic())
                return
            self._clock.advance(max(0.0, due - self._clock.monotonic()))

    def _work(self) -> bool:
        worked = False
        for reflector in self._controller.reflectors:
            reflector.step()
        for _ in range(_WRITTEN):
            if not self._writes.step():
                break
            worked = True
        began = time.thread_time()
        while self._inbox:
            self._controller.handle(self._inbox.popleft())
        while self._controller.step():
            worked = True
        self.seconds += time.thread_time() - began
        return worked

    def let_go(self) -> int:
        """How many pods have no gate."""
        return sum(not pod.gates for pod in self._controller.state.pods.values())


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
