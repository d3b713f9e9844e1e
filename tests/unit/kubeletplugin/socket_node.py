"""A node whose files and sockets are real, below a folder of the test's own."""

from pathlib import Path
from typing import Any

from driver.clock import SystemClock
from driver.files import SystemFiles
from driver.observe import Metrics, logger
from driver.settings import Settings
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import ClaimRef, Preparer
from kubeletplugin.server import PluginServer
from simulation.kubernetes.dra_plugin import ClaimName
from simulation.kubernetes.plugin_client import PluginClient
from tests.unit.kubeletplugin.plugin_node import DRIVER, NODE, PluginNode


class SocketNode:
    """Starts plugin instances and stops whatever is left at the end."""

    def __init__(self, folder: Path):
        self.rig = PluginNode("t4x2")
        self.root = folder / "k"
        self.cdi = folder / "cdi"
        self.faults = folder / "faults"
        section = {
            "kubeletRoot": str(self.root),
            "cdiRoot": str(self.cdi),
            "healthResendSeconds": 0.3,
            "simulatedFaults": str(self.faults),
        }
        self.settings = Settings.model_validate({"kubeletplugin": section})
        self.hardware = SimulatedHardware(load_profile("t4x2", SystemFiles()), NODE, SystemFiles(), str(self.faults))
        self.client = PluginClient(str(self.root), DRIVER)
        self.registrations = 0
        self._servers: list[PluginServer] = []

    def start(self, pod_uid: str = "", preparer: Preparer | None = None) -> PluginServer:
        """A plugin instance that serves."""
        node = NodeContext(
            name=NODE,
            settings=self.settings,
            boot_id="boot",
            api=self.rig.api,
            clock=SystemClock(),
            files=SystemFiles(),
            hardware=HardwarePorts(self.hardware, self.hardware),
            log=logger("test"),
        )
        server = PluginServer(node, preparer or Preparer(node, Metrics()), pod_uid, self._registered)
        server.start()
        self._servers.append(server)
        return server

    def stop(self, server: PluginServer) -> None:
        self._servers.remove(server)
        server.stop(seconds=1)

    def close(self) -> None:
        self.client.close()
        for server in list(self._servers):
            self.stop(server)

    def claim(self, name: str, results: list[dict[str, Any]]) -> ClaimName:
        return named(self.rig.claim(name, results))

    def sockets(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*.sock"))

    def _registered(self) -> None:
        self.registrations += 1


def named(ref: ClaimRef) -> ClaimName:
    return ClaimName(ref.namespace, ref.name, ref.uid)
