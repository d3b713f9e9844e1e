"""A node on which Lode plays the kubelet for scripted device plugins, over real sockets."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.clock import SystemClock
from driver.deviceplugins import DevicePluginSettings
from driver.observe import Metrics, logger
from kubeletplugin.hardware import Card, Edits, Handle, Health, Use
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware
from kubeletplugin.hardware.deviceplugin.host import HostTimes, PluginHost
from kubeletplugin.hardware.deviceplugin.hostfiles import SystemHostTree
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
from kubeletplugin.hardware.deviceplugin.metrics import BridgeMetrics
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.place import Place
from tests.fakes.deviceplugin.plugin import ScriptedPlugin
from tests.fakes.deviceplugin.script import Script
from tests.simulation.files import MemoryFiles

SECONDS = 15.0
"""How long a test waits for what others do."""
SHORT = HostTimes(allocate=0.5, dial=2.0, pre_start=0.5, unlink=0.3, anew=0.6)


def comes_true(fact: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Whether it is true within that time."""
    until = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@dataclass
class HostedNode:
    """The node; ``start`` and ``restart`` are ours, the plugins are the vendors'."""

    place: Path
    times: HostTimes = SHORT
    settings: DevicePluginSettings = field(default_factory=DevicePluginSettings)
    refuse: Callable[[str], str] = lambda _: ""
    root: str = "/"
    """Where the host's files are."""
    files: MemoryFiles = field(default_factory=MemoryFiles)
    boots: int = 1
    plugins: list[ScriptedPlugin] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.place / "device-plugins"
        self.folder.mkdir(mode=0o750)
        self.host: PluginHost
        self.registry: Registry
        self.hardware: DevicePluginHardware

    def start(self) -> "HostedNode":
        """A new program of ours."""
        clock, log, boot = SystemClock(), logger("test"), f"boot-{self.boots}"
        self.metrics = Metrics()
        self.registry = Registry(
            self.settings,
            BootFile(self.files, "/state/device-plugins.json", boot, Known, log),
            lambda: LabelledNode({}, lambda _: Place()),
            clock,
            log,
            metrics=BridgeMetrics(self.metrics),
        )
        self.host = PluginHost(str(self.folder), self.registry, clock, log, self.refuse, self.times)
        self.hardware = DevicePluginHardware(
            self.host, self.registry, KeptAnswers(self.files, "/state/answers", boot), SystemHostTree(self.root)
        )
        self.host.start()
        return self

    def restart(self) -> None:
        """Our program ends and the next one starts."""
        self.host.close()
        self.start()

    def reboot(self) -> None:
        """The machine starts again: every process is another one."""
        for plugin in self.plugins:
            plugin.kill()
        self.host.close()
        self.boots += 1
        self.start()
        for plugin in self.plugins:
            plugin.start()

    def plugin(self, **script: Any) -> ScriptedPlugin:
        """Another device plugin of the node, which starts."""
        plugin = ScriptedPlugin(self.folder, self.place, Script(**script))
        self.plugins.append(plugin)
        plugin.start()
        return plugin

    def served(self, **script: Any) -> ScriptedPlugin:
        """Another device plugin, which has registered and told its devices."""
        plugin = self.plugin(**script)
        wanted = {device.id for device in plugin.script.devices}
        assert comes_true(lambda: wanted <= self.ids(plugin.script.resource)), plugin.registrations
        # The host may ask for the devices before the plugin has the answer to its registration.
        assert comes_true(lambda: plugin.registrations[-1:] == [""])
        return plugin

    def ids(self, resource: str = "example.com/card") -> set[str]:
        """The IDs of a resource that are published and healthy."""
        cards, health = self.cards(resource), self.hardware.health()
        usable = [card for card in cards if card.name in health and health[card.name].healthy]
        return {id for card in usable for id in _bridged(card).ids}

    def cards(self, resource: str = "example.com/card") -> list[Card]:
        """The cards of a resource."""
        return [card for card in self.hardware.cards() if _bridged(card).resource == resource]

    def card(self, device_id: str, resource: str = "example.com/card") -> Card:
        """The card of an ID."""
        (found,) = [card for card in self.cards(resource) if _bridged(card).device_id == device_id]
        return found

    def health(self, resource: str = "example.com/card") -> Mapping[str, Health]:
        """Health of the cards of a resource, by name."""
        cards, found = self.cards(resource), self.hardware.health()
        return {card.name: found[card.name] for card in cards}

    def health_of(self, device_id: str, resource: str = "example.com/card") -> Health:
        """Health of one card."""
        return self.health(resource)[self.card(device_id, resource).name]

    def use(self, claim: str, *device_ids: str, resource: str = "example.com/card") -> Use:
        """The use of the first of these devices by a claim that has them all."""
        cards = [self.card(each, resource) for each in device_ids]
        uuids = tuple(card.uuid for card in cards)
        return Use(claim, cards[0], cards_of_request=uuids, cards_of_claim=uuids)

    def give(self, claim: str, *device_ids: str, resource: str = "example.com/card") -> Edits:
        """What containers of a claim with these devices get."""
        use = self.use(claim, *device_ids, resource=resource)
        handles: dict[str, Handle] = {}
        for action in self.hardware.actions(use, ()):
            handles[action.key] = self.hardware.ensure(action)
        return self.hardware.edits(use, handles)

    def take(self, claim: str, *device_ids: str, resource: str = "example.com/card") -> None:
        """The claim ends."""
        for action in self.hardware.actions(self.use(claim, *device_ids, resource=resource), ()):
            self.hardware.release(action, None)

    def shows(self, name: str, resource: str = "example.com/card", **labels: str) -> float | None:
        """The value of a series of this resource; None if there is none."""
        return self.metrics.registry.get_sample_value(name, {"resource": resource, **labels})

    def end(self) -> None:
        """The test is over. What no plugin may ever see is looked for."""
        for plugin in self.plugins:
            plugin.kill()
        self.host.close()
        for plugin in self.plugins:
            streams = [call.start for call in plugin.called("ListAndWatch")]
            allowed = plugin.script.registers_times
            assert all(streams.count(start) <= allowed for start in streams), "a stream was opened again"
            assert not plugin.called("GetPreferredAllocation"), "the options do not name this call"


def _bridged(card: Card) -> Any:
    assert card.bridged
    return card.bridged
