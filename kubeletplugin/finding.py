"""Finds the backends for a node's cards."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Object
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware, chosen
from kubeletplugin.hardware.deviceplugin.metrics import BridgeMetrics
from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.guarded import Guard
from kubeletplugin.hardware.infiniband import Attachments
from kubeletplugin.hardware.left_out import LeftOut
from kubeletplugin.hardware.pci import cards_on_bus
from kubeletplugin.hardware.places import Places
from kubeletplugin.hardware.simulated import FileStore, SimulatedHardware, load_profile
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of, vendor_of_resource

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


@dataclass(frozen=True, slots=True)
class FoundNode:
    """What the hardware of a node depends on besides the settings."""

    name: str
    profile: str
    """See ``profile_name``."""
    labels: Callable[[], Mapping[str, str]] = dict
    """Returns the labels of the Node; {} while they are not known."""
    bridge_metrics: Callable[[], BridgeMetrics] | None = None
    """Returns the metrics of device plugins; None if nobody reads them."""
    serves: bool = False
    """Whether this program serves the node's device plugins; others see what it has recorded of them."""


def find_hardware(settings: Settings, node: FoundNode, files: Files, clock: Clock, log: Logger) -> CombinedHardware:
    """The hardware of a node.

    Raises:
        InvalidInput: the profile does not exist or is not valid. The operator must change the setting
            ``kubeletplugin.profile``, the node's label, or the file.
        TransientFault: the vendor's library is not there; call again.
    """
    section = settings.kubeletplugin
    left_out = LeftOut(section.exclude_cards)
    if section.hardware == "simulated":
        cards = load_profile(node.profile, files)
        boot_id = (files.read(section.boot_id_file) or b"").decode().strip()
        store = FileStore(files, section.simulated_state, boot_id)
        simulated = SimulatedHardware(cards, node.name, files, section.simulated_faults, store)
        return CombinedHardware.only(simulated, left_out.offered)
    present = _Presence(settings, log)

    def choice(vendor: Vendor) -> BackendChoice:
        return BackendChoice(
            facts_of(vendor).backend, partial(present.has, vendor), partial(_maker(vendor), settings, clock, log)
        )

    choices = [choice(vendor) for vendor in EVERY_VENDOR]
    if section.serves_device_plugins:
        others = () if section.hardware == "deviceplugin" else tuple(choices)
        make = partial(_device_plugins, settings, node, others, files=files, clock=clock, log=log)
        choices.append(BackendChoice("deviceplugin", lambda: True, make))
    infiniband = Attachments(Sysfs(section.sys_root), section.infiniband_exclude, clock, log)
    return chosen(section.hardware, choices, lambda cards: infiniband.attached(left_out.offered(cards)))


class _Presence:
    """Finds out whether a vendor's driver serves cards of this node."""

    def __init__(self, settings: Settings, log: Logger):
        section = settings.kubeletplugin
        own = section.nvidia
        # A driver container has its device nodes below its own root, and maybe nowhere else.
        below_root = f"{own.host_root}/{own.driver_root.strip('/')}/dev"
        self._folders = tuple(dict.fromkeys([section.dev_root, f"{own.host_root}/dev", below_root.replace("//", "/")]))
        self._sysfs = Sysfs(section.sys_root)
        self._log = log
        self._looked = set[Vendor]()
        """Whose cards were looked for on the PCI bus; that takes too long to be done often."""

    def has(self, vendor: Vendor) -> bool:
        """Whether the node has the device file that only a node with such cards has. Cards without a driver are logged
        once."""
        facts = facts_of(vendor)
        if any(DeviceFiles(folder).find(facts.device_files[0]) for folder in self._folders):
            return True
        if vendor not in self._looked:
            bus = cards_on_bus(self._sysfs)
            cards = bus.counts[vendor]
            if cards or not bus.unread:
                self._looked.add(vendor)
            if cards:
                self._log.warning(
                    "cards are on the PCI bus, and their driver is not there",
                    brand=facts.brand,
                    cards=cards,
                    missing=facts.device_files[0],
                    folders=self._folders,
                    remedy=f"{facts.remedy}; for a driver in a container set kubeletplugin.nvidia.driverRoot",
                )
        return False


def _maker(vendor: Vendor) -> Callable[[Settings, Clock, Logger], Hardware]:
    match vendor:
        case "nvidia":
            return _nvidia
        case "huawei":
            return _ascend
        case _:
            assert_never(vendor)


def _nvidia(settings: Settings, clock: Clock, log: Logger) -> Hardware:
    # Only nodes with these cards pay for the memory of the library's binding.
    from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
    from kubeletplugin.hardware.nvidia.commands import SystemCommands
    from kubeletplugin.hardware.nvidia.root import DriverRoot

    section, driver = settings.kubeletplugin, settings.driver_name
    own = section.nvidia
    host = DriverRoot("/", own.host_root)
    node = NvidiaNode(
        host=host,
        root=DriverRoot(own.driver_root, str(host.seen(own.driver_root)), str(host.seen("/dev")), own.library_folders),
        unit_prefix=driver,
        settings=own,
        proc=section.proc_root,
        sys=Sysfs(section.sys_root),
    )
    return nvidia_hardware(node, SystemCommands(), log, clock, Guard(CARD_SECONDS))


def _ascend(settings: Settings, clock: Clock, log: Logger) -> Hardware:
    # Only nodes with these cards pay for the memory of the library's binding.
    from kubeletplugin.hardware.ascend.backend import AscendHardware, Host
    from kubeletplugin.hardware.ascend.dcmi import Dcmi
    from kubeletplugin.hardware.ascend.faults import Severities
    from kubeletplugin.hardware.ascend.installinfo import link_install_info
    from kubeletplugin.hardware.ascend.npusmi import runner

    section = settings.kubeletplugin
    own = section.ascend
    link_install_info(section.driver_root)
    devices, npu_smi = DeviceFiles(section.dev_root), runner(own.npu_smi) if own.npu_smi else None
    return AscendHardware(
        Dcmi(own.library),
        Host(Sysfs(section.sys_root), devices, clock, section.driver_root, npu_smi),
        log,
        Severities(dict(own.severities.items()), own.fault_codes),
        ask=Guard(CARD_SECONDS),
    )


def _device_plugins(
    settings: Settings,
    node: FoundNode,
    others: Collection[BackendChoice],
    *,
    files: Files,
    clock: Clock,
    log: Logger,
) -> Hardware:
    # Only nodes with device plugins pay for gRPC's client and the backend.
    from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware, NotServed
    from kubeletplugin.hardware.deviceplugin.host import HostTimes, PluginHost
    from kubeletplugin.hardware.deviceplugin.hostfiles import SystemHostTree
    from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
    from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
    from kubeletplugin.hardware.deviceplugin.registry import Registry
    from kubeletplugin.hardware.deviceplugin.remembered import Known

    section, places = settings.kubeletplugin, Places(Sysfs(settings.kubeletplugin.sys_root))
    own = section.deviceplugin
    boot_id = (files.read(section.boot_id_file) or b"").decode().strip()

    def refuse(resource: str) -> str:
        vendor = vendor_of_resource(resource)
        backend = facts_of(vendor).backend if vendor else ""
        if not any(choice.name == backend and choice.is_present() for choice in others):
            return ""
        return f"the backend {backend} serves these cards; set kubeletplugin.hardware to deviceplugin to serve them so"

    record = BootFile(files, own.known_file, boot_id, Known, log)
    metrics = node.bridge_metrics() if node.bridge_metrics else None
    registry = Registry(own, record, lambda: LabelledNode(node.labels(), places.place), clock, log, metrics=metrics)
    kept, host_files = KeptAnswers(files, f"{own.state_folder}/answers", boot_id), SystemHostTree(own.host_root)
    if not node.serves:
        registry.freeze(frozen=True)
        return DevicePluginHardware(NotServed(), registry, kept, host_files)
    times = HostTimes(allocate=own.allocate_seconds)
    host = PluginHost(own.folder, registry, clock, log, refuse=refuse, times=times)
    host.start()
    return DevicePluginHardware(host, registry, kept, host_files)
