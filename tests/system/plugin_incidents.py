"""What vendors' device plugins do in a history: they fail, lie, hang, die and come back with something else."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from driver.deviceplugins import DevicePluginSettings, ResourceSettings
from driver.kube.api import Object
from kubeletplugin.hardware.actions import PluginAllocation
from kubeletplugin.hardware.deviceplugin.registry import KEPT_SECONDS
from kubeletplugin.hardware.remembered_cards import LONGEST_RECOVERY_SECONDS
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish.publisher import HEALTH_SECONDS
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.device_plugins import (
    CARD,
    EQUAL,
    FIRST_IDS,
    ODD_ANSWERS,
    SHARED,
    Manner,
    NodePlugins,
    VendorPlugin,
    published_name,
)
from tests.simulation.settled_checks import LONGEST_BOOT_SECONDS
from tests.system.card_incidents import RECOVERED_SECONDS, published_health
from tests.system.objects import EVERY_TAINT, devices, pod, request

SEEDS: Final = 0.07
"""In how many histories nodes have device plugins."""
NODES: Final = 0.7
"""How many of the nodes then."""
HAPPENS: Final = 0.5
"""How often one of them does something after an action, in such a history."""
SETTINGS: Final = DevicePluginSettings(remember_seconds=60, resources={EQUAL: ResourceSettings(replicas="equal")})
PAUSES: Final = (0.0, 0.0, 5.0, 40.0)
"""Seconds until a device plugin registers; the last one is longer than a program waits for it."""
FORGOTTEN_SECONDS: Final = 1000.0
"""How long a device works until it counts as healthy again, even if it failed ten times. Few fail more often."""
REBOOTS: Final = 0.1
"""How often the node starts again after that."""
KILLS: Final = 0.3
"""How often our program is killed after that."""
CALLS: Final = 60
"""Within so many calls a program is killed."""
BAD_MANNERS: Final[tuple[Manner, ...]] = (
    "is slow",
    "hangs",
    "refuses",
    "looks for its pod",
    "dies",
    "answers and dies",
    "outlives us",
    "outlives us",
    "is odd",
)

DEVICE, SHARE = "device.lode.dev", "device-share.lode.dev"
BRIDGED_REQUESTS: Final[Mapping[str, Object]] = {
    "bridged-1": request(DEVICE),
    "bridged-2": request(DEVICE, count=2),
    "bridged-tolerant": request(DEVICE, tolerates=[EVERY_TAINT]),
    "bridged-slot": request(SHARE),
    "bridged-slots": request(SHARE, slots="2"),
    "bridged-both": devices(request(DEVICE, name="card"), request(SHARE, name="slot")),
    "bridged-and-gpu": devices(request(DEVICE, name="card"), request("gpu.lode.dev", name="gpu")),
}
"""Requests for devices of device plugins, by the name of their template."""


def happen(seed: int) -> bool:
    """Whether nodes have device plugins in the history of this seed."""
    return random.Random(f"device plugins in {seed}").random() < SEEDS


def device_plugins(seed: int) -> Callable[[str], list[VendorPlugin]]:
    """The device plugins of each node in the history of this seed, by the name of the node."""

    def of_node(node: str) -> list[VendorPlugin]:
        chance = random.Random(f"device plugins of {node} in {seed}")
        if not happen(seed) or chance.random() >= NODES:
            return []
        resources = chance.sample(sorted(FIRST_IDS), chance.randint(1, len(FIRST_IDS)))
        return [_plugin(resource, "first.sock") for resource in resources]

    return of_node


def _plugin(resource: str, endpoint: str) -> VendorPlugin:
    name = resource.replace("/", "_")
    return VendorPlugin(resource, f"{name}-{endpoint}", dict.fromkeys(FIRST_IDS[resource], True))


class PluginIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"what device plugins do in {seed}")
        self._cluster = cluster
        self.happen = happen(seed)
        self._count = 0

    def act(self) -> None:
        """Perhaps let a device plugin of some node do something."""
        nodes = {name: each.bridged.plugins for name, each in self._cluster.hardware.items() if each.bridged}
        if not self.happen or not nodes or self._random.random() >= HAPPENS:
            return
        name = self._random.choice(sorted(nodes))
        plugin = self._random.choice(nodes[name].plugins)
        acts = (
            self._registers_again,
            self._dies,
            self._comes_back,
            self._loses_its_stream,
            self._changes_health,
            self._changes_health,
            self._changes_ids,
            self._flaps,
            self._changes_manner,
            self._changes_manner,
        )
        if self._random.random() < 0.1:
            self._has_a_rival(nodes[name], plugin.resource)
        else:
            self._random.choice(acts)(plugin)
        text = f"{plugin.resource} {plugin.manner}, {'up' if plugin.up else 'down'}: {plugin.ids}"
        self._cluster.log.note(name, f"device plugin {text}")
        if self._random.random() < REBOOTS:
            # Whatever was answered is asked again.
            self._cluster.reboot(name, power_lost=self._random.random() < 0.5)
        if self._random.random() < KILLS:
            self._cluster.slots.crash_after(f"plugin-{name}", self._random.randint(1, CALLS))

    def undo(self) -> None:
        """All device plugins answer, and whatever they have reported is there and healthy."""
        for hardware in self._cluster.hardware.values():
            if hardware.bridged is not None:
                hardware.bridged.plugins.mend()

    def _registers_again(self, plugin: VendorPlugin) -> None:
        """It registers anew, perhaps at another socket, as if nothing had been before."""
        if self._random.random() < 0.5:
            self._count += 1
            plugin.endpoint = f"again-{self._count}.sock"
        plugin.register_again(self._soon())

    def _dies(self, plugin: VendorPlugin) -> None:
        plugin.up = False

    def _comes_back(self, plugin: VendorPlugin) -> None:
        """A new process registers; most have forgotten which cards had failed."""
        plugin.up = True
        plugin.ids = dict.fromkeys(plugin.ids, True)
        if self._random.random() < 0.5:
            self._changes_ids(plugin)
        plugin.register_again(self._soon())

    def _loses_its_stream(self, plugin: VendorPlugin) -> None:
        plugin.is_cut = True
        plugin.registers_at = self._random.choice((self._soon(), math.inf))

    def _changes_health(self, plugin: VendorPlugin) -> None:
        if plugin.ids:
            name = self._random.choice(sorted(plugin.ids))
            plugin.ids[name] = not plugin.ids[name]
            plugin.report()

    def _changes_ids(self, plugin: VendorPlugin) -> None:
        """It reports fewer IDs, or others, or all of the first ones again."""
        first = dict.fromkeys(FIRST_IDS[plugin.resource], True)
        match self._random.choice(("fewer", "none", "others", "first")):
            case "fewer" if plugin.ids:
                plugin.ids.pop(self._random.choice(sorted(plugin.ids)))
            case "none":
                plugin.ids = {}
            case "others":
                self._count += 1
                suffix = "::0" if plugin.resource == SHARED else ""
                plugin.ids = {**plugin.ids, f"other-{self._count}{suffix}": True}
            case _:
                plugin.ids = first
        plugin.report()

    def _flaps(self, plugin: VendorPlugin) -> None:
        """It sends one list after another."""
        for _ in range(self._random.randint(2, 8)):
            self._changes_health(plugin)

    def _changes_manner(self, plugin: VendorPlugin) -> None:
        plugin.manner = self._random.choice(("answers", *BAD_MANNERS))
        plugin.odd = self._random.randrange(len(ODD_ANSWERS))
        plugin.pause = self._random.choice(PAUSES)

    def _has_a_rival(self, node: NodePlugins, resource: str) -> None:
        """Another process for the same resource registers: an update, or an installation that is there twice."""
        self._count += 1
        rival = _plugin(resource, f"rival-{self._count}.sock")
        if self._random.random() < 0.5:
            self._changes_ids(rival)
        rival.registers_at = self._soon()
        node.plugins.append(rival)

    def _soon(self) -> float:
        return self._cluster.clock.monotonic() + self._random.choice(PAUSES)


class PluginFailure:
    """Some device plugins of each node fail for good, each in a way of its own, while claims have their devices.

    Args:
        seed: says which, and how.
    """

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"device plugins that fail in {seed}")
        self._cluster = cluster
        self._failed: dict[str, list[str]] = {}
        """The resources whose device plugin fails, by node."""

    @property
    def _nodes(self) -> Iterator[tuple[str, NodePlugins]]:
        for name, hardware in self._cluster.hardware.items():
            if hardware.bridged is not None:
                yield name, hardware.bridged.plugins

    def begin(self) -> None:
        """Let them fail, and our programs start anew long after.

        Raises:
            Violation: a device that fails is offered, or is withdrawn although a claim has it; or another one is
                tainted, or fails and is not.
        """
        self._recover()
        for name, node in self._nodes:
            resources = sorted({plugin.resource for plugin in node.plugins})
            self._failed[name] = self._random.sample(resources, self._random.randint(1, len(resources)))
            for plugin in node.plugins:
                if plugin.resource in self._failed[name]:
                    self._random.choice((_dies, _is_cut, _has_nothing, _is_ill))(plugin)
        self._cluster.idle(2 * HEALTH_SECONDS + RECOVERED_SECONDS)
        self._check()
        self._cluster.idle(KEPT_SECONDS)
        self._check_other_cards()
        for name in self._failed:
            self._cluster.slots.kill(f"plugin-{name}")
        self._cluster.idle(LONGEST_BOOT_SECONDS)
        self._check()

    def _check(self) -> None:
        published = {name: dict(_published(self._cluster, name)) for name in self._failed}
        faults = [
            f"{name}: {device} of {resource} is tainted: {is_tainted}, and its device plugin fails: {not is_tainted}"
            for name, found in published.items()
            for device, (resource, is_tainted) in found.items()
            if is_tainted != (resource in self._failed[name])
        ]
        faults += [
            f"{name}: {device} is withdrawn, and a claim has it"
            for name, found in published.items()
            for device in _prepared_on(self._cluster, name) - found.keys()
        ]
        if faults:
            raise Violation("\n".join(faults))

    def _check_other_cards(self) -> None:
        """A card that no device plugin has fails meanwhile, and works again."""
        failed = {}
        for name in self._failed:
            hardware = self._cluster.hardware[name]
            card = failed[name] = hardware.cards_of_node.cards()[0]
            hardware.faults.setdefault(card.name, "Xid 79")
        self._cluster.idle(2 * HEALTH_SECONDS)
        offered = [name for name, card in failed.items() if published_health(self._cluster, card) != {True}]
        for name, card in failed.items():
            self._cluster.hardware[name].faults.pop(card.name)
        if offered:
            raise Violation(f"while device plugins fail, another card fails and is offered: {offered}")

    def pods(self) -> Iterator[Object]:
        """For each node, a pod that wants one of its own cards, and one for a device whose device plugin works."""
        for name, node in self._nodes:
            others = [other for other in self._cluster.nodes if other != name]
            unit = self._cluster.hardware[name].cards_of_node.cards()[0].unit
            wanted = {f"{unit}-1"}
            if {plugin.resource for plugin in node.plugins} - {*self._failed[name], CARD}:
                wanted.add("bridged-slot")
            yield from (pod(f"beside-{each}-{name}", template_name=each, refused_on=others) for each in sorted(wanted))

    def end(self) -> None:
        """Every device plugin is as at first, for long enough that all is forgotten.

        Raises:
            Violation: something of what failed is not.
        """
        for _, node in self._nodes:
            node.mend(as_at_first=True)
        self._cluster.idle(KEPT_SECONDS)
        self._recover()

    def _recover(self) -> None:
        """Time passes until devices that work count as healthy again, at most as long as that may take."""
        for _ in range(math.ceil(LONGEST_RECOVERY_SECONDS / FORGOTTEN_SECONDS)):
            self._cluster.idle(FORGOTTEN_SECONDS)
            published = [device for name, _ in self._nodes for device in _published(self._cluster, name)]
            if not any(is_tainted for _, (_, is_tainted) in published):
                return


def _dies(plugin: VendorPlugin) -> None:
    plugin.up = False


def _is_cut(plugin: VendorPlugin) -> None:
    plugin.is_cut, plugin.registers_at, plugin.pause = True, math.inf, math.inf


def _has_nothing(plugin: VendorPlugin) -> None:
    plugin.ids = {}
    plugin.report()


def _is_ill(plugin: VendorPlugin) -> None:
    plugin.ids = dict.fromkeys(plugin.ids, False)
    plugin.report()


def _published(cluster: SimulatedCluster, node: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    """The devices of device plugins that a node publishes, with their resource and whether they are unhealthy."""
    resource = cluster.names.attribute("resource")
    for part in cluster.invariants.slices().values():
        if part.pool == cluster.names.pool(node):
            for device in part.devices:
                if resource in device.attributes:
                    ill = any(taint.key == cluster.names.unhealthy for taint in device.taints)
                    yield device.name, (str(device.attributes[resource]), ill)


def _prepared_on(cluster: SimulatedCluster, node: str) -> set[str]:
    """The names of the devices of device plugins that prepared claims of a node have."""
    claims = ClaimStorage(cluster.nodes[node].files, cluster.settings).load().claims.values()
    return {
        published_name(step.action.resource, name)
        for claim in claims
        if claim.state == "completed"
        for step in claim.steps
        if isinstance(step.action, PluginAllocation)
        for name in step.action.ids
    }
