"""Settings of both programs, as values. Pure.

Every field has a default that works on a standard cluster. Unknown fields are errors, all reported at once, so that a
typo never silently selects the default.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from driver.deviceplugins import DevicePluginSettings
from driver.kinds import EVERY_OFFER, Backend, Offer, Severity
from driver.names import DEFAULT_DRIVER, DEFAULT_SCHEDULER, Names
from driver.section import Section


class NodeLabels(Section):
    """Node labels that describe the fabric; a missing label gives the attribute the value ""."""

    ib_cluster: str = f"{DEFAULT_DRIVER}/ib-cluster"
    ib_leaf: str = f"{DEFAULT_DRIVER}/ib-leaf"
    rail: str = f"{DEFAULT_DRIVER}/rail"
    """For cards whose backend does not report their rail."""
    offer: str = f"{DEFAULT_DRIVER}/offer"
    """Overrides ``offer`` on the node that carries it: kinds joined by ``-``, such as ``whole`` or
    ``share-partitions``."""
    simulated_profile: str = f"{DEFAULT_DRIVER}/simulated-profile"
    """Overrides ``profile`` on the node that carries it."""


class NvidiaSettings(Section):
    """Settings of the backend of NVIDIA's GPUs. The paths are those of the host."""

    driver_root: str = "/"
    """The root of the driver's files; that of a driver container is ``/run/nvidia/driver``."""
    library_folders: tuple[Annotated[str, Field(pattern="^/")], ...] = ()
    """Folders below ``driver_root`` in which libraries are looked for first, for hosts that have them elsewhere than
    known distributions."""
    linker: Literal["hook", "environment"] = "hook"
    """How programs in containers find the driver's libraries: a hook tells the linker, which needs a shell on the host;
    or the variable LD_LIBRARY_PATH does, in place of that of the image."""
    host_root: str = "/host"
    """Where the plugin's pod sees the host's ``/``."""
    mig: Literal["dynamic", "static"] = "dynamic"
    """``dynamic``: MIG instances are created for claims. ``static``: those that the operator has created are offered,
    and none is created or destroyed."""
    nvidia_ctk: str = ""
    """``nvidia-ctk`` of NVIDIA's container toolkit, if it is to say which files a container gets."""
    cdi_hook: str = ""
    """``nvidia-cdi-hook`` on the host, which ``nvidia_ctk`` puts into CDI specs; "" to look for it."""
    hami_library: str = "/usr/local/vgpu/libvgpu.so"
    """HAMi-core's library, for claims with sharing ``hamiCore``."""
    run_folder: str = f"/run/{DEFAULT_DRIVER}"
    """A folder that a reboot empties, at the same path in the plugin's pod."""


class AscendSettings(Section):
    """Settings of the backend of Ascend NPUs."""

    library: str = "/usr/local/dcmi/libdcmi.so"
    npu_smi: str = "/usr/local/bin/npu-smi"
    """The tool that finds whole cards where the library cannot be loaded; "" asks none."""
    severities: dict[Literal["notice", "minor", "major", "critical"], Severity] = Field(default_factory=dict)
    """What faults of DCMI's severities make of a chip; by default notice and minor ones are ignored, major ones make it
    degraded and critical ones fatal."""
    fault_codes: dict[Annotated[str, Field(pattern="^[0-9A-F]{8}$")], Severity] = Field(default_factory=dict)
    """What single faults make of a chip, by Huawei's number (``80E01801``); these count more than ``severities``."""


DriverName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
TaintEffect = Literal["None", "NoSchedule", "NoExecute"]
"""``None``: no taint. ``NoExecute`` also ends the pods that use the device."""


class HealthTaints(Section):
    """The effect of the taint on devices of a card, or of a partition, that does not work as it should."""

    fatal: TaintEffect = "NoSchedule"
    """It cannot be used."""
    degraded: TaintEffect = "NoSchedule"
    """It works, and should be looked at."""
    unknown: TaintEffect = "None"
    """It cannot be monitored."""


class KubeletPluginSettings(Section):
    """Settings of ``lode kubeletplugin``."""

    hardware: Literal["auto", Backend, "simulated"] = "auto"
    """The backend; ``auto`` serves whatever hardware the node has."""
    nvidia: NvidiaSettings = NvidiaSettings()
    ascend: AscendSettings = AscendSettings()
    deviceplugin: DevicePluginSettings = DevicePluginSettings()
    exclude_cards: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Patterns (``*``, ``?``, ``[]``) of cards that are not offered, such as a display's: ``gpu-3``, ``3``, the
    product's name, the uuid, or the PCI address."""
    infiniband_exclude: tuple[str, ...] = ()
    """Patterns (``*``, ``?``, ``[]``) of HCAs and ports for storage and management: ``mlx5_4``, ``mlx5_4/1``, a PCI
    address, or the GUID of a port."""
    sys_root: str = "/sys"
    proc_root: str = "/proc"
    """Where the kernel says which device nodes give access to MIG instances."""
    dev_root: str = "/dev"
    driver_root: str = "/"
    """Where the host's file system is mounted, to see which of a driver's files it has."""
    profile: str = ""
    """Name of a shipped profile, or a path to a YAML file, for simulated hardware; "" means no cards."""
    simulated_faults: str = f"/var/lib/kubelet/plugins/{DEFAULT_DRIVER}/faults"
    """A simulated card is unhealthy while a file of its name (``gpu-3``) exists in this directory; "" means never."""
    simulated_state: str = f"/var/lib/kubelet/plugins/{DEFAULT_DRIVER}/simulated.json"
    """File with what exists on simulated cards: partitions, MPS daemons, time slices."""
    offer: tuple[Offer, ...] = EVERY_OFFER
    """What each card is offered as. A card with a single device publishes no counters."""
    slots: int = Field(default=100, ge=1)
    """The maximum number of tenants of a shared card."""
    node_labels: NodeLabels = NodeLabels()
    kubelet_root: str = "/var/lib/kubelet"
    cdi_root: str = "/var/run/cdi"
    boot_id_file: str = "/proc/sys/kernel/random/boot_id"
    health_taints: HealthTaints = HealthTaints()
    recovery_seconds: float = Field(default=60, ge=0)
    """How long a card that failed must have worked again before it counts as healthy; doubled with each relapse, up to
    an hour."""
    health_resend_seconds: float = Field(default=10, gt=0, lt=30)
    """The kubelet discards health that was not reported for 30 s."""
    card_metrics: bool = False
    """Whether /metrics has what each card measures of itself. The vendor's library is asked for it when somebody asks
    for metrics, at most once in five seconds."""
    claim_metrics: bool = False
    """Whether /metrics has series for each device of a prepared claim, with the claim's name and the card's uuid."""
    peer_metrics: tuple[Literal["hami"], ...] = ()
    """The systems under whose names the plugin serves what containers use of shares, too, under /metrics/hami. It names
    the pods of every namespace to whoever may read the metrics."""

    @property
    def serves_device_plugins(self) -> bool:
        """Whether vendors' own device plugins are served: always with ``hardware: deviceplugin``."""
        return self.hardware == "deviceplugin" or (self.hardware == "auto" and self.deviceplugin.enabled)


class TierLevel(Section):
    """The level of the topology that a tier of Volcano's stands for: one of the two."""

    attribute: str = ""
    """Qualified name of a device attribute."""
    node_label: str = ""

    @model_validator(mode="after")
    def _is_one(self) -> "TierLevel":
        if bool(self.attribute) == bool(self.node_label):
            raise ValueError("must have one of attribute and nodeLabel")
        return self


class HoldSettings(Section):
    """Settings for nodes that are held back for pods and gangs that have waited long."""

    enabled: bool = True
    """Whether nodes are held back at all."""
    after_seconds: float = Field(default=300, gt=0)
    """How long a pod or gang waits before nodes are held back for it."""
    for_seconds: float = Field(default=1800, gt=0)
    """How long they are held back at most."""
    pause_seconds: float = Field(default=1800, gt=0)
    """How long afterwards nobody holds these nodes back; the namespace waits twice as long for its next hold."""
    share: float = Field(default=0.5, gt=0, le=1)
    """The part of the nodes with devices that is held back at a time; one gang that needs more may have it alone."""


class AutoscalingSettings(Section):
    """Settings for clusters whose nodes an autoscaler makes and removes."""

    enabled: bool = False
    """Whether pods with our gate ask autoscalers for a node."""
    unknown_kinds: bool = True
    """Whether pods also ask for devices of which no node has any, as in a cluster whose groups have no nodes yet."""


class PreemptionSettings(Section):
    """Settings for pods that are evicted so that pods of higher priority get their devices."""

    enabled: bool = False
    """Whether pods are evicted at all; needs the rights of ``manifests/preemption``."""
    priority_classes: tuple[str, ...] = ()
    """The PriorityClasses whose pods may have others evicted; none for all. ``preemptionPolicy: Never`` counts too."""
    longest_grace_seconds: float = Field(default=600, ge=0)
    """A pod that takes longer to end is no victim, and nobody waits for it if it is being deleted."""


class KueueSettings(Section):
    """Settings for clusters whose queues are Kueue's."""

    enabled: bool = False
    """Whether AdmissionChecks are answered; needs the rights of ``manifests/kueue``."""


class TemplateSettings(Section):
    """Settings for ResourceClaimTemplates that are made because pods name them."""

    per_namespace: int = Field(default=200, ge=0)
    """The most that a namespace has at a time; 0 makes none."""
    unused_seconds: float = Field(default=600, ge=0)
    """How long one is kept that no pod names. It goes at once if the namespace has no room for another."""


class ControllerSettings(Section):
    """Settings of ``lode controller``."""

    lease_name: str = "lode-controller"
    lease_seconds: int = Field(default=15, ge=3)
    max_retry_seconds: float = Field(default=60, gt=0)
    """Upper bound of the back-off of one pod."""
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    """The pods of which ``spec.schedulerName`` get devices: the profiles of kube-scheduler; none for any."""
    max_unbound_seconds: float = Field(default=300, gt=0)
    """After this time, devices are taken back from a pod that got them and was neither bound nor refused."""
    hold: HoldSettings = HoldSettings()
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    kueue: KueueSettings = KueueSettings()
    templates: TemplateSettings = TemplateSettings()
    writes_in_flight: int = Field(default=16, ge=1, le=256)
    """The most pods and claims that are written at the same time."""
    write_seconds: float = Field(default=5, gt=0)
    """How long one write may take: the client gives up after this time, and the API server too."""

    fleet_metrics: Literal["none", "totals", "cards", "claims"] = "cards"
    """What the leader's /metrics has of the fleet: sums by type and namespace; also each card; also each claim, which
    names the claims, pods and gangs of every namespace to whoever may read the metrics."""
    peer_metrics: tuple[Literal["volcano", "hami"], ...] = ()
    """The systems under whose names the leader serves cards and pods, too, under /metrics/volcano and /metrics/hami.
    They name the pods of every namespace to whoever may read the metrics."""
    volcano_tiers: dict[int | str, TierLevel] = Field(default_factory=dict)
    """What tiers in PodGroups of Volcano stand for, by number or name. A PodGroup with another tier is refused."""
    also_allocates: tuple[DriverName, ...] = ()
    """Other drivers whose devices the controller allocates, too, alone or together with ours in one claim. The policies
    have to name them as well."""
    closing_node_conditions: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Patterns of the types of node conditions that keep pods from a node while their status is ``True``."""
    debug_address: str = "127.0.0.1:8081"
    """Where /debug/usage is served, which names the claims of every namespace; "" serves nothing."""
    verify_policies: bool = True
    """Whether to allocate only while the admission policies of ``manifests/controller`` are in force."""

    @property
    def longest_write_seconds(self) -> float:
        """After this time a write cannot take effect any more: it is sent in half of it, and carried out in half."""
        return 2 * self.write_seconds


class Settings(Section):
    """All settings."""

    driver_name: DriverName = DEFAULT_DRIVER
    nvidia_dra_names: bool = False
    """Whether claims that were written for NVIDIA's DRA driver are served: its attributes are published beside ours,
    and its parameters are read. Both programs need it, and the DeviceClasses of ``manifests/nvidia-dra-names``."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    observe_address: str = ":8080"
    """Where /healthz, /readyz and /metrics are served: ``host:port``, without a host on all addresses, of IPv4 and of
    IPv6; "" serves nothing."""
    kubeletplugin: KubeletPluginSettings = KubeletPluginSettings()
    controller: ControllerSettings = ControllerSettings()

    @property
    def names(self) -> Names:
        """The names derived from the driver's name."""
        return Names(self.driver_name, self.nvidia_dra_names, self.controller.also_allocates)

    @model_validator(mode="after")
    def _names_each_driver_once(self) -> "Settings":
        drivers = self.names.allocated_drivers
        if len(set(drivers)) < len(drivers):
            raise ValueError("controller.alsoAllocates: names a driver twice, or the driver of driverName")
        return self
