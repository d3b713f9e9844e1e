"""The whole controller on the API in memory and a virtual clock, and what it costs the thread that decides."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from controller.loop import Controller, Ports
from controller.state import StateDelta
from controller.writing import Channel, Lane, WriteResult
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.names import Names
from driver.observe import Metrics, logger
from driver.settings import Settings
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.stepped_writes import SteppedWrites

CARDS = 8
"""Cards of a node."""
CLASS = "cards"
"""The DeviceClass of all devices of ours."""
NAMES = Names()
NAMESPACE = "default"
_FABRIC = {"fabric": "a"}
_WRITTEN = 16
"""How many writes end between two looks at what has arrived."""


class _Term:
    """A leader whose term does not end."""

    term: int | None = 1


class WholeLoop:
    """A controller on a cluster of its own; what arrives is taken in as by the program, decoded before.

    Attributes:
        seconds: CPU of everything that the deciding thread does: taking in what has changed, and deciding.
    """

    def __init__(self, settings: Settings):
        self.clock = VirtualClock()
        self.api = MemoryApi(self.clock)
        self.seconds = 0.0
        self._settings = settings
        self._inbox: deque[StateDelta | WriteResult] = deque()
        bounds = {Lane.PLACING: settings.controller.writes_in_flight, Lane.REPORTING: 1}
        self._writes = SteppedWrites(Channel(self.api, _Term(), self._inbox.append, self.clock), bounds=bounds)
        selectors = [{"cel": {"expression": f'device.driver == "{NAMES.driver}"'}}]
        self.api.create(DEVICE_CLASSES, {"metadata": {"name": CLASS}, "spec": {"selectors": selectors}})

    def add_node(self, name: str, labels: Mapping[str, str] = _FABRIC, cards: int = CARDS) -> None:
        """A node with so many cards."""
        node = self.api.create(NODES, {"metadata": {"name": name, "labels": dict(labels)}})
        allocatable = {"cpu": "128", "memory": "2Ti", "pods": "110"}
        node["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
        self.api.update(NODES, node, "status")
        pool = {"name": NAMES.pool(name), "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{card}", "attributes": {"kind": {"string": "gpu"}}} for card in range(cards)]
        spec = {"driver": NAMES.driver, "nodeName": name, "pool": pool, "devices": devices}
        self.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{name}-{NAMES.driver}"}, "spec": spec})

    def add_pod(
        self,
        name: str,
        cards: int,
        namespace: str = NAMESPACE,
        *,
        parameters: Object | None = None,
        cpu: str = "1",
        **spec: Any,
    ) -> Object:
        """A pod with a claim of its name for so many cards; it has our gate unless ``spec`` names its node.

        Args:
            parameters: of the claim, such as a ``PlacementConfig``.
            spec: further fields of the pod.
        """
        exactly = {"deviceClassName": CLASS, "count": cards}
        devices: Object = {"requests": [{"name": "cards", "exactly": exactly}]}
        if parameters is not None:
            devices["config"] = [{"opaque": {"driver": NAMES.driver, "parameters": parameters}}]
        metadata = {"name": name, "namespace": namespace}
        self.api.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": devices}}, namespace)
        made = {
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}],
            "schedulingGates": [] if spec.get("nodeName") else [{"name": NAMES.gate}],
            "resourceClaims": [{"name": "cards", "resourceClaimName": name}],
            **spec,
        }
        return self.api.create(PODS, {"metadata": metadata, "spec": made}, namespace)

    def start(self) -> None:
        """Start the controller."""
        ports = Ports(self.api, self._writes, self.clock, Metrics(), logger("bench"))
        self.controller = Controller(ports, self._settings, "bench", deliver=self._inbox.append)
        self.controller.lead(1)

    def settle(self, seconds: float) -> None:
        """Work until nothing is due for so many seconds."""
        until = self.clock.monotonic() + seconds
        while True:
            if self.work():
                continue
            times = (self.controller.next_due(), self._writes.next_due())
            due = min((moment for moment in times if moment is not None), default=until)
            if due >= until:
                self.clock.advance(until - self.clock.monotonic())
                return
            self.clock.advance(max(0.0, due - self.clock.monotonic()))

    def work(self) -> bool:
        """Take in what has arrived, and decide what is due; False if there was nothing to do."""
        worked = False
        for reflector in self.controller.reflectors:
            reflector.step()
        for _ in range(_WRITTEN):
            if not self._writes.step():
                break
            worked = True
        began = time.thread_time()
        while self._inbox:
            self.controller.handle(self._inbox.popleft())
        while self.controller.step():
            worked = True
        self.seconds += time.thread_time() - began
        return worked
