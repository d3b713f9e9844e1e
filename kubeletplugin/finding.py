"""Which backend serves a node's cards."""

from collections.abc import Mapping

from driver.files import Files
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.simulated import FileStore, SimulatedHardware, load_profile


def find_hardware(settings: Settings, labels: Mapping[str, str], node_name: str, files: Files) -> Hardware:
    """The hardware of a node with these labels.

    Raises:
        InvalidInput: the profile of simulated hardware does not exist or is not valid. The operator must change the
            setting ``kubeletplugin.profile``, the node's label, or the file.
        TransientFault: the vendor's library is not there; call again.
    """
    section = settings.kubeletplugin
    if section.hardware == "nvidia":
        return _nvidia(settings, files)
    profile = load_profile(labels.get(section.node_labels.simulated_profile, section.profile), files)
    boot_id = (files.read(section.boot_id_file) or b"").decode().strip()
    store = FileStore(files, section.simulated_state, boot_id)
    return SimulatedHardware(profile, node_name, files, section.simulated_faults, store)


def _nvidia(settings: Settings, files: Files) -> Hardware:
    # Only nodes with these cards pay for the memory of the library's binding.
    from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
    from kubeletplugin.hardware.nvidia.commands import SystemCommands
    from kubeletplugin.hardware.nvidia.root import DriverRoot

    own, driver = settings.kubeletplugin.nvidia, settings.driver_name
    host = DriverRoot("/", own.host_root)
    node = NvidiaNode(
        host=host,
        root=DriverRoot(own.driver_root, str(host.seen(own.driver_root)), str(host.seen("/dev"))),
        run_folder=own.run_folder,
        hook=f"{settings.kubeletplugin.kubelet_root}/plugins/{driver}/nvidia-linker-hook",
        unit_prefix=driver,
        toolkit=str(host.seen(own.nvidia_ctk)) if own.nvidia_ctk else "",
        hami_library=own.hami_library,
        mig=own.mig,
    )
    return nvidia_hardware(node, files, SystemCommands(), logger("kubeletplugin"))
