"""One node of which the API, the hardware and the clock are the test's, and the publishers that run on it."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from driver.errors import TransientFault
from driver.kube.api import NODES, RESOURCE_SLICES, Api, Object
from driver.observe import Metrics
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware import Card, CardGone, CardSource, CardState, HardwarePorts
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletDevices, SilentKubelet
from kubeletplugin.node_context import NodeContext
from kubeletplugin.offers import Recorded
from kubeletplugin.publish import Publisher, PublishingMetrics
from kubeletplugin.publish.other_programs import OtherPrograms, file_of_signs
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

NODE = "node-a"
WRITES = ("create", "update", "delete")


class Journal:
    """Stands in for the log: event names with their fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = error = info

    def fields(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class Connection:
    """The API as one plugin reaches it: counts writes, and can fail them, lose answers or not store fields."""

    def __init__(self, api: MemoryApi):
        self._api = api
        self.writes: list[str] = []
        self.before: Callable[[str], None] = lambda _call: None
        self.after: Callable[[str], None] = lambda _call: None
        self.drop: Callable[[Object], None] = lambda _spec: None
        """Takes fields out of a spec between what is sent and what is stored, as a feature gate that is off does."""

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)

        def through(*arguments: Any, **options: Any) -> Any:
            self.before(name)
            if name in WRITES:
                self.writes.append(name)
            if name in ("create", "update"):
                arguments = deepcopy(arguments)
                self.drop(arguments[1]["spec"])
            answer = call(*arguments, **options)
            self.after(name)
            return answer

        return through


class Broken(SimulatedHardware):
    """Hardware that can stop answering, or answer nonsense."""

    silent = False
    present: tuple[Card, ...] | None = None
    hanging: frozenset[str] = frozenset()
    """The uuids of cards that do not answer questions about what is on them."""

    gone: frozenset[str] = frozenset()
    """The uuids of cards that say of themselves that they are gone."""

    def observe(self, card: Card) -> CardState:
        if card.uuid in self.gone:
            raise CardGone(f"card {card.uuid} is lost")
        if card.uuid in self.hanging:
            raise TransientFault(f"card {card.uuid} does not answer")
        return super().observe(card)

    def cards(self) -> tuple[Card, ...]:
        if self.silent:
            raise TransientFault("driver: device is resetting")
        return super().cards() if self.present is None else self.present


class PublishingNode:
    """One node: the API, the hardware and the clock outlive the publishers started on them."""

    def __init__(self, profile: str = "a100x4", **section: Any):
        self.clock = VirtualClock()
        self.memory = MemoryApi(self.clock)
        self.files = MemoryFiles()
        self.settings = Settings(kubeletplugin=KubeletPluginSettings(**section))
        self.hardware = Broken(load_profile(profile, self.files), NODE, self.files, "/faults")
        self.cards: CardSource | None = None
        """What stands before the hardware, if anything does."""
        self.journal = Journal()
        self.recorded = Recorded()
        self.kubelet: KubeletDevices | None = None
        """The devices that the kubelet names; None while it is not there. When it comes back, it is another run."""
        self.kubelet_hangs = False
        """Whether it does not answer, though its socket is there."""
        self._runs = 0
        self._was_there = False

    def node(self, **labels: str) -> None:
        metadata = {"name": NODE, "labels": labels}
        self.memory.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    def asked(self) -> KubeletAnswer:
        """The answer of the kubelet."""
        if self.kubelet is not None and not self._was_there:
            self._runs += 1
        self._was_there = self.kubelet is not None
        if self.kubelet is None or self.kubelet_hangs:
            return SilentKubelet(has_socket=self.kubelet_hangs)
        return replace(self.kubelet, run=f"run-{self._runs}")

    def start(self) -> "Running":
        return Running(self)

    def slices(self) -> list[Object]:
        return list(self.memory.list(RESOURCE_SLICES).items)

    def devices(self) -> dict[str, Object]:
        return {d["name"]: d for item in self.slices() for d in item["spec"].get("devices", ())}

    def generations(self) -> set[int]:
        return {item["spec"]["pool"]["generation"] for item in self.slices()}

    def wipe(self) -> None:
        for item in self.slices():
            self.memory.delete(RESOURCE_SLICES, item["metadata"]["name"])


class Running:
    """A publisher at work, with its own connection."""

    def __init__(self, rig: PublishingNode):
        self.rig = rig
        self.api = Connection(rig.memory)
        self.metrics = Metrics()
        node = NodeContext(
            name=NODE,
            settings=rig.settings,
            boot_id="boot",
            api=cast("Api", self.api),
            clock=rig.clock,
            files=rig.files,
            hardware=HardwarePorts(rig.cards or rig.hardware, rig.hardware),
            log=rig.journal,
        )
        file = file_of_signs(rig.files, "/plugin", node.log)
        self.publisher = Publisher(
            node,
            PublishingMetrics(self.metrics),
            recorded=lambda: rig.recorded,
            others=OtherPrograms(rig.clock, rig.asked, file),
        )

    def hear(self) -> None:
        for reflector in self.publisher.reflectors:
            reflector.step()

    def run(self, seconds: float = 1.0) -> None:
        """Listen and step for a while."""
        end = self.rig.clock.monotonic() + seconds
        while self.rig.clock.monotonic() <= end:
            self.hear()
            self.publisher.step()
            self.rig.clock.advance(0.05)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def running(profile: str = "a100x4", **section: Any) -> tuple[PublishingNode, Running]:
    rig = PublishingNode(profile, **section)
    rig.node()
    one = rig.start()
    one.run()
    return rig, one


def failing(error: Exception | None, *calls: str) -> Callable[[str], None]:
    def before(call: str) -> None:
        if error and call in (calls or WRITES):
            raise error

    return before
