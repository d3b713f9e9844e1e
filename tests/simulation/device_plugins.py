"""Vendors' device plugins of a node, which do whatever a process can do, and what a program of ours knows of them.

A device plugin is a value that outlives the programs of ours. ``HostedPlugins`` plays the kubelet for it in each of
these, and tells the registry what ``PluginHost`` tells it where there are sockets.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware import HardwareRefusal
from kubeletplugin.hardware.deviceplugin.answers import MOST_BYTES, AnsweredDevice, AnsweredMount, PluginAnswer
from kubeletplugin.hardware.deviceplugin.backend import DevicePlugins
from kubeletplugin.hardware.deviceplugin.mapping import device_name
from kubeletplugin.hardware.deviceplugin.registry import Registration, Registry
from kubeletplugin.hardware.deviceplugin.reported import ALL, Reported
from tests.simulation.node import MemoryNode

Manner = Literal[
    "answers",
    "is slow",
    "hangs",
    "refuses",
    "looks for its pod",
    "dies",
    "answers and dies",
    "outlives us",
    "is odd",
]
"""How a device plugin behaves when it is asked for devices; or our program is killed soon after it has answered."""

CARD, SHARED, EQUAL = "example.com/card", "example.com/card.shared", "rdma/hca"
FIRST_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    CARD: ("0000:18:00.0", "0000:19:00.0", "Card_C"),
    SHARED: ("card-a::0", "card-a::1", "card-b::0", "card-b::1"),
    EQUAL: ("0", "1", "2"),
}
"""The IDs of each resource on a new node: cards, replicas with a common base, and replicas that are all the same."""
VARIABLES: Final[Mapping[str, str]] = {CARD: "CARD", SHARED: "SHARED", EQUAL: "EQUAL"}
"""What the variables begin with that a container gets for a resource: ``_IDS`` and ``_ANSWER``."""
FILE: Final = "/dev/bridged"
"""The only device file of a node."""
ALLOCATE_SECONDS: Final = 15.0
"""After this time a question is given up (``HostTimes.allocate``)."""
SLOW_SECONDS: Final = 4.0
ODD_ANSWERS: Final = (
    PluginAnswer(annotations={"example.com/mode": "region"}),
    PluginAnswer(devices=(AnsweredDevice("/dev/x", "/dev/not-there", "rw"),)),
    PluginAnswer(devices=(AnsweredDevice("dev/x", "../../dev/x", "rw"),)),
    PluginAnswer(mounts=(AnsweredMount("/x", "/../../not/there"),)),
    PluginAnswer(devices=(AnsweredDevice("/dev/x", FILE, "rwx"),)),
    PluginAnswer({"A=B": "c"}),
    PluginAnswer({"LONG": "x" * MOST_BYTES}),
    PluginAnswer(cdi_devices=("example.com/card=0",)),
)
"""Answers that no container can be given."""


@dataclass(slots=True)
class VendorPlugin:
    """A process of a vendor's device plugin, for one resource."""

    resource: str
    endpoint: str
    ids: dict[str, bool]
    """Whether each ID is healthy."""
    manner: Manner = "answers"
    odd: int = 0
    """The number of its odd answer, and of the calls that our program makes until it is killed."""
    up: bool = True
    pause: float = 0.0
    """Seconds after which it registers with a program that has started."""
    registers_at: float = 0.0
    """When it registers, if it is not registered (``Clock.monotonic``)."""
    registration: Registration | None = None
    """Its registration with the program that runs now."""
    is_cut: bool = False
    """Whether its stream has ended, and the program has yet to notice it."""
    unread: list[tuple[Reported, ...]] = field(default_factory=list)
    """Lists that the program has yet to read."""

    def report(self) -> None:
        """Send the list as it is now, if anybody listens."""
        if self.registration is not None:
            self.unread.append(tuple(Reported(name, healthy) for name, healthy in self.ids.items()))

    def register_again(self, at: float) -> None:
        """Drop the connection, and register at this time."""
        self.registration, self.registers_at, self.is_cut = None, at, False
        self.unread.clear()


@dataclass(frozen=True, slots=True)
class Answered:
    """A question for devices that was answered."""

    resource: str
    ids: tuple[str, ...]
    boots: int
    """In which boot of the node."""


@dataclass(slots=True)
class NodePlugins:
    """The device plugins of a node. What they do may be changed at any time.

    Attributes:
        check_question: says what is wrong with asking for these IDs of a resource now.
        kill_after: kills the program of ours after so many calls.
    """

    node: MemoryNode
    plugins: list[VendorPlugin]
    check_question: Callable[[str, tuple[str, ...]], Iterator[str]]
    found: list[str]
    """What is wrong is added here."""
    kill_after: Callable[[int], None]
    answers: dict[int, Answered] = field(default_factory=dict)
    """The answered questions by their numbers; each answer has its number in a variable."""
    reported: dict[str, set[str]] = field(default_factory=dict)
    """All IDs that were ever reported, by resource."""

    def program_starts(self, now: float) -> None:
        """A program of ours takes over ``kubelet.sock``: every device plugin has to register anew."""
        for plugin in self.plugins:
            plugin.register_again(now + plugin.pause)

    def reboot(self) -> None:
        """Every process of the machine is another one."""
        for plugin in self.plugins:
            plugin.up = True

    def mend(self, *, as_at_first: bool = False) -> None:
        """Each resource has one device plugin, which answers, and reports as healthy what was ever reported: claims may
        have been allocated any of it.

        Args:
            as_at_first: what was not reported at first is gone for good.
        """
        first: dict[str, VendorPlugin] = {}
        for plugin in self.plugins:
            if first.setdefault(plugin.resource, plugin) is not plugin:
                plugin.up, plugin.pause = False, math.inf
        for resource, plugin in first.items():
            others = [] if as_at_first else sorted(self.reported.get(resource, ()))
            plugin.ids = dict.fromkeys((*FIRST_IDS[resource], *others), True)
            plugin.manner, plugin.up, plugin.pause = "answers", True, 0.0
            plugin.register_again(0.0)


def published_name(resource: str, device_id: str) -> str:
    """The name of the published device that an ID belongs to."""
    if resource == CARD:
        return device_name(resource, device_id)
    return f"{device_name(resource, ALL if resource == EQUAL else device_id.partition('::')[0])}-share"


class HostedPlugins(DevicePlugins):
    """The device plugins of a node as one program of ours has them. It may be killed at each call.

    Args:
        call: announces a call of the program.
    """

    def __init__(self, node: NodePlugins, registry: Registry, call: Callable[[], None], clock: Clock):
        self._node = node
        self._registry = registry
        self._call = call
        self._clock = clock
        self._reading = False
        node.program_starts(clock.monotonic())

    def tend(self) -> None:
        """Take in what the device plugins have done."""
        if self._reading:  # another thread does
            return
        self._reading = True
        try:
            for plugin in [*self._node.plugins]:
                self._follow(plugin)
        finally:
            self._reading = False

    def _follow(self, plugin: VendorPlugin) -> None:
        if plugin.registration is not None and (plugin.is_cut or not plugin.up):
            self._registry.lost(plugin.registration)
            plugin.register_again(plugin.registers_at)
        if plugin.registration is None and plugin.up and plugin.registers_at <= self._clock.monotonic():
            self._call()
            plugin.registration = self._registry.begin(plugin.resource, plugin.endpoint)
            plugin.report()
        while plugin.registration is not None and plugin.unread:
            self._call()
            listed = plugin.unread.pop(0)
            self._node.reported.setdefault(plugin.resource, set()).update(device.id for device in listed)
            self._close(self._registry.listed(plugin.registration, listed))

    def _close(self, replaced: Registration | None) -> None:
        """End the stream of a registration that another one has replaced; its device plugin waits for another host."""
        for plugin in self._node.plugins:
            if replaced is not None and plugin.registration == replaced:
                plugin.register_again(math.inf)

    def allocate(self, resource: str, ids: tuple[str, ...]) -> PluginAnswer:
        """See ``DevicePlugins``."""
        self._call()
        registration = self._registry.current(resource)
        connected = (one for one in self._node.plugins if registration and one.registration == registration)
        plugin = next(connected, None)
        if plugin is None:
            raise TransientFault(f"the device plugin of {resource} is not connected")
        self._node.found += self._node.check_question(resource, ids)
        answer = self._answer(plugin, ids)
        self._call()
        return answer

    def _answer(self, plugin: VendorPlugin, ids: Iterable[str]) -> PluginAnswer:
        resource = plugin.resource
        if not plugin.up:
            raise HardwareRefusal(f"the device plugin of {resource} refused: UNAVAILABLE")
        match plugin.manner:
            case "is slow":
                self._clock.sleep(SLOW_SECONDS)
            case "hangs":
                self._clock.sleep(ALLOCATE_SECONDS)
                raise HardwareRefusal(f"the device plugin of {resource} did not answer")
            case "refuses":
                raise HardwareRefusal(f"the device plugin of {resource} refused: UNKNOWN")
            case "looks for its pod":
                self._registry.refuse(resource, f"the device plugin of {resource} looks for its pod")
                raise HardwareRefusal(f"the device plugin of {resource} found no pending pod")
            case "dies":
                plugin.up = False
                raise HardwareRefusal(f"the device plugin of {resource} refused: UNAVAILABLE")
            case "answers and dies":
                plugin.up = False
            case "outlives us":
                self._node.kill_after(1 + plugin.odd)
            case "is odd":
                return ODD_ANSWERS[plugin.odd]
            case _:
                pass
        number = len(self._node.answers) + 1
        given = self._node.answers[number] = Answered(resource, tuple(ids), self._node.node.boots)
        variable = VARIABLES[resource]
        env = {f"{variable}_IDS": ",".join(given.ids), f"{variable}_ANSWER": str(number)}
        return PluginAnswer(env, devices=(AnsweredDevice(FILE, FILE, "rw"),))
