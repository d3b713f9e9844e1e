"""Finds the backends for a node's cards."""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Object
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware, chosen
from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.guarded import Guard
from kubeletplugin.hardware.infiniband import Attachments
from kubeletplugin.hardware.simulated import FileStore, SimulatedHardware, load_profile
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of

CARD_SECONDS = 2.0
"""Longest time of a call about one card, when all cards of a node are asked."""


def profile_name(settings: Settings, node: Object) -> str:
    """The profile of a Node's simulated hardware, by its label or else by the settings; "" if no card is simulated.

    Args:
        node: {} if it is not known.
    """
    section = settings.kubeletplugin
    if section.hardware != "simulated":
        return ""
    labels = (node.get("metadata") or {}).get("labels") or {}
    return str(labels.get(section.node_labels.simulated_profile, section.profile))


def find_hardware(
    settings: Settings, profile: str, node_name: str, files: Files, clock: Clock, log: Logger
) -> CombinedHardware:
    """The hardware of a node.

    Args:
        profile: see ``profile_name``.

    Raises:
        InvalidInput: the profile does not exist or is not valid. The operator must change the setting
            ``kubeletplugin.profile``, the node's label, or the file.
        TransientFault: the vendor's library is not there; call again.
    """
    section = settings.kubeletplugin
    if section.hardware == "simulated":
        cards = load_profile(profile, files)
        boot_id = (files.read(section.boot_id_file) or b"").decode().strip()
        store = FileStore(files, section.simulated_state, boot_id)
        return CombinedHardware.of(SimulatedHardware(cards, node_name, files, section.simulated_faults, store))
    folders = section.dev_root, f"{section.nvidia.host_root}/dev"

    def has(name: str) -> bool:
        return any(DeviceFiles(folder).find(name) for folder in folders)

    def choice(vendor: Vendor) -> BackendChoice:
        facts = facts_of(vendor)
        return BackendChoice(facts.backend, partial(has, facts.device_files[0]), partial(_maker(vendor), settings, log))

    choices = [choice(vendor) for vendor in EVERY_VENDOR]
    infiniband = Attachments(Sysfs(section.sys_root), section.infiniband_exclude, clock, log)
    return chosen(section.hardware, choices, infiniband.attached)


def _maker(vendor: Vendor) -> Callable[[Settings, Logger], Hardware]:
    match vendor:
        case "nvidia":
            return _nvidia
        case "huawei":
            return _ascend
        case _:
            assert_never(vendor)


def _nvidia(settings: Settings, log: Logger) -> Hardware:
    # Only nodes with these cards pay for the memory of the library's binding.
    from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
    from kubeletplugin.hardware.nvidia.commands import SystemCommands
    from kubeletplugin.hardware.nvidia.root import DriverRoot

    section, driver = settings.kubeletplugin, settings.driver_name
    own = section.nvidia
    host = DriverRoot("/", own.host_root)
    node = NvidiaNode(
        host=host,
        root=DriverRoot(own.driver_root, str(host.seen(own.driver_root)), str(host.seen("/dev"))),
        run_folder=own.run_folder,
        unit_prefix=driver,
        toolkit=own.nvidia_ctk,
        cdi_hook=own.cdi_hook,
        hami_library=own.hami_library,
        mig=own.mig,
        proc=section.proc_root,
        sys=section.sys_root,
    )
    return nvidia_hardware(node, SystemCommands(), log, Guard(CARD_SECONDS))


def _ascend(settings: Settings, log: Logger) -> Hardware:
    # Only nodes with these cards pay for the memory of the library's binding.
    from kubeletplugin.hardware.ascend.backend import AscendHardware, HostFiles
    from kubeletplugin.hardware.ascend.dcmi import Dcmi
    from kubeletplugin.hardware.ascend.faults import Severities
    from kubeletplugin.hardware.ascend.installinfo import link_install_info
    from kubeletplugin.hardware.ascend.npusmi import runner

    section = settings.kubeletplugin
    own = section.ascend
    link_install_info(section.driver_root)
    return AscendHardware(
        Dcmi(own.library),
        HostFiles(Sysfs(section.sys_root), DeviceFiles(section.dev_root), section.driver_root),
        log,
        runner(own.npu_smi) if own.npu_smi else None,
        Severities(dict(own.severities.items()), own.fault_codes),
        ask=Guard(CARD_SECONDS),
    )
