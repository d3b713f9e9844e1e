"""Which backend serves a node's cards."""

from collections.abc import Mapping

from driver.files import Files
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.simulated import FileStore, SimulatedHardware, load_profile


def find_hardware(settings: Settings, labels: Mapping[str, str], node_name: str, files: Files) -> Hardware:
    """The hardware of a node with these labels.

    Raises:
        InvalidInput: the profile of simulated hardware does not exist or is not valid. The operator must change the
            setting ``kubeletplugin.profile``, the node's label, or the file.
    """
    section = settings.kubeletplugin
    profile = load_profile(labels.get(section.node_labels.simulated_profile, section.profile), files)
    boot_id = (files.read(section.boot_id_file) or b"").decode().strip()
    store = FileStore(files, section.simulated_state, boot_id)
    return SimulatedHardware(profile, node_name, files, section.simulated_faults, store)
