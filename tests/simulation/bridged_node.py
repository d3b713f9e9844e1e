"""A node with device plugins beside its cards: their backend for each program, and what must hold for them."""

from collections.abc import Callable, Iterator

from driver.clock import Clock
from driver.files import Files
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.place import Place
from tests.fakes.deviceplugin.host_tree import FakeHostTree
from tests.simulation.device_plugin_checks import HandChecks, question_violations
from tests.simulation.device_plugins import FILE, HostedPlugins, NodePlugins, VendorPlugin
from tests.simulation.node import MemoryNode
from tests.simulation.process import Process, ProcessDisk


class BridgedNode:
    """The device plugins of a node, and the backend that a program has for them.

    Args:
        found: what is wrong is added here.
        kill_after: kills the program of ours after so many calls.
    """

    def __init__(
        self,
        node: MemoryNode,
        settings: Settings,
        plugins: list[VendorPlugin],
        found: list[str],
        kill_after: Callable[[int], None],
    ):
        self._node = node
        self._settings = settings
        self._found = found

        def check(resource: str, ids: tuple[str, ...]) -> Iterator[str]:
            return question_violations(node, settings, resource, ids)

        self.plugins = NodePlugins(node, plugins, check, found, kill_after)
        self._hands = HandChecks(node, settings, self.plugins.answers, self.plugins.reported)

    def hardware(self, process: Process, clock: Clock, log: Logger) -> Hardware:
        """The backend of a program that starts."""
        own, boot_id = self._settings.kubeletplugin.deviceplugin, self._node.boot_id
        files = Files(ProcessDisk(self._node.files.disk, process))
        record = BootFile(files, own.known_file, boot_id, Known, log)
        registry = Registry(own, record, lambda: LabelledNode({}, lambda _: Place()), clock, log)
        kept = KeptAnswers(files, f"{own.state_folder}/answers", boot_id)
        host = HostedPlugins(self.plugins, registry, process.call, clock)
        return DevicePluginHardware(host, registry, kept, FakeHostTree([FILE]))

    def look(self) -> None:
        """Look at what containers have."""
        self._found += self._hands.look()
