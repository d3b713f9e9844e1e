"""Puts the backend of NVIDIA's cards together."""

from dataclasses import dataclass

from driver.clock import Clock
from driver.errors import TransientFault
from driver.observe import Logger
from driver.settings import NvidiaSettings
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.nvidia.backend import NvidiaHardware, Parts, Sharing
from kubeletplugin.hardware.nvidia.commands import Commands, SystemdServices
from kubeletplugin.hardware.nvidia.devices import DeviceNodes
from kubeletplugin.hardware.nvidia.driverfiles import DriverFiles, FoundFiles
from kubeletplugin.hardware.nvidia.found import Finder
from kubeletplugin.hardware.nvidia.health import HealthWatch
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.nvidia.runfolder import RunFolder
from kubeletplugin.hardware.nvidia.sharing.hami import HamiRegions
from kubeletplugin.hardware.nvidia.sharing.mps import MpsDaemons
from kubeletplugin.hardware.nvidia.sharing.timeslicing import TimeSlices
from kubeletplugin.hardware.nvidia.toolkit import ToolkitFiles
from kubeletplugin.hardware.sysfs import Sysfs

_LIBRARY = "libnvidia-ml.so.1"
DEFAULT_SYSFS = Sysfs()


@dataclass(frozen=True, slots=True)
class NvidiaNode:
    """A node as the backend sees it, and its settings."""

    host: DriverRoot
    """The host's ``/``."""
    root: DriverRoot
    """The driver's files, on the host or in a driver container."""
    unit_prefix: str
    """Prefix of the names of services on the host."""
    settings: NvidiaSettings
    proc: str = "/proc"
    sys: Sysfs = DEFAULT_SYSFS
    nvml: str = ""
    """Path of the library; by default it is looked for in the driver's files."""


def nvidia_hardware(
    node: NvidiaNode, commands: Commands, log: Logger, clock: Clock, ask: Ask = call_directly
) -> NvidiaHardware:
    """The backend for a node.

    Args:
        ask: bounds the time of calls about one card, so that a hanging card does not hide the others.

    Raises:
        TransientFault: the driver's library is not there; call again.
    """
    own, library = node.settings, node.root.library(_LIBRARY)
    path = node.nvml or (str(node.root.found(library)) if library else "")
    if not path:
        raise TransientFault(
            f"no {_LIBRARY} below {node.root.on_host('/')}; install NVIDIA's driver, or set "
            "kubeletplugin.nvidia.driverRoot and libraryFolders"
        )
    nvml, run = Nvml(path), RunFolder(own.run_folder)
    host_path = str(node.host.seen("/"))
    services = SystemdServices(commands, host_path)
    of_driver: DriverFiles = FoundFiles(node.root, node.host, own.linker)
    if own.nvidia_ctk:
        of_driver = ToolkitFiles(node.root, node.host, commands, own.nvidia_ctk, own.cdi_hook)
    sharing = Sharing(
        TimeSlices(node.root, commands, run),
        MpsDaemons(nvml, node.root, services, run, node.unit_prefix),
        HamiRegions(node.host, run, own.hami_library),
    )
    parts = Parts(
        nvml=nvml,
        finder=Finder(nvml, node.sys, clock, ask),
        watch=HealthWatch(nvml, run, ask),
        nodes=DeviceNodes(node.root, node.proc),
        driver_files=of_driver,
        sharing=sharing,
    )
    return NvidiaHardware(parts, own.mig, log)
