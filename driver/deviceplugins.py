"""Settings of devices that vendors' own device plugins serve. Pure."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from driver.errors import InvalidInput
from driver.limits import is_c_identifier
from driver.names import DEFAULT_DRIVER
from driver.quantity import Quantity
from driver.section import Section

MOST_MAPPED: Final = 8
"""Attributes and capacities together that the settings can give a device; the others of its 32 are taken."""
_TAKEN: Final = frozenset(
    "kind vendor uuid index numaNode profile computeCapability cudaVersion resource deviceID pciBusID".split()
)
_TAKEN_AMOUNTS: Final = frozenset(("cores", "slots"))


class ValueSource(Section):
    """Where a value comes from: one of the four fields.

    A device for which it gives nothing has the value "". Its ``type`` is then the last part of the resource.
    """

    value: str = ""
    """The value itself."""
    group: str = ""
    """A named group of the resource's ``idPattern``."""
    node_label: str = ""
    """The value of a label of the Node."""
    table: dict[str, str] = Field(default_factory=dict)
    """Values by the ID of the device."""

    @model_validator(mode="after")
    def _is_one(self) -> "ValueSource":
        if sum(map(bool, (self.value, self.group, self.node_label, self.table))) != 1:
            raise ValueError("must have one of value, group, nodeLabel and table")
        return self


class ResourceSettings(Section):
    """Settings of one resource of a device plugin."""

    vendor: str = Field(default="", max_length=64)
    """The attribute ``vendor``; by default the name before the top-level domain of the resource: ``amd``."""
    replicas: Literal["auto", "dashed", "equal", "none"] = "auto"
    """Which IDs are one card with a slot for each: see ``kubeletplugin.hardware.deviceplugin.reported``."""
    id_pattern: str = Field(default="", max_length=1024)
    """A regular expression for whole IDs, with named groups; the group ``pciBusID`` is the PCI address."""
    attributes: dict[str, ValueSource] = Field(default_factory=dict)
    """Attributes of each device, without the driver's domain. Those that every device has can be given, too."""
    capacity: dict[str, ValueSource] = Field(default_factory=dict)
    """Amounts of each device, as quantities: ``memory``, and others."""
    harmless_annotations: tuple[str, ...] = ()
    """Annotations (patterns) that the device plugin may want for containers, and that these do not need."""
    cdi_annotations: tuple[str, ...] = ("cdi.k8s.io/",)
    """What the keys of those annotations begin with that name CDI devices."""
    omit_env: tuple[str, ...] = ()
    """Variables of the device plugin's answer that containers do not get, because theirs are to count."""

    @model_validator(mode="after")
    def _can_be_published(self) -> "ResourceSettings":
        faults = [f"{name}: is not a name of an attribute" for name in self.names if not is_c_identifier(name)]
        faults += [f"attributes.{name}: every device has it already" for name in self.attributes if name in _TAKEN]
        faults += [f"capacity.{name}: every device has it already" for name in self.capacity if name in _TAKEN_AMOUNTS]
        if len(self.names) > MOST_MAPPED:
            faults.append(f"at most {MOST_MAPPED} attributes and capacities: {len(self.names)}")
        groups: set[str] = set()
        try:
            groups = set(re.compile(self.id_pattern).groupindex)
        except re.error as error:
            faults.append(f"idPattern: is not a regular expression: {error}")
        sources = {**self.attributes, **self.capacity}
        faults += [
            f"{name}: idPattern has no group {source.group}"
            for name, source in sources.items()
            if source.group and source.group not in groups
        ]
        for name, source in self.capacity.items():
            amounts = [source.value] if source.value else list(source.table.values())
            faults += [f"capacity.{name}: is not a quantity: {text!r}" for text in amounts if not is_amount(text)]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes and capacities that it gives."""
        return (*self.attributes, *self.capacity)


def is_amount(text: str) -> bool:
    """Whether the text is a quantity that a device can have."""
    try:
        return 0 <= Quantity.parse(text).value < 2**63
    except InvalidInput:
        return False


class DevicePluginSettings(Section):
    """Settings of the backend of device plugins."""

    enabled: bool = False
    """Whether ``hardware: auto`` serves device plugins; ``hardware: deviceplugin`` serves nothing else."""
    folder: str = f"/var/lib/kubelet/plugins/{DEFAULT_DRIVER}/device-plugins"
    """What device plugins mount in place of ``/var/lib/kubelet/device-plugins``, at the same path in the plugin's pod
    and on the host."""
    host_root: str = "/host"
    """Where the plugin's pod sees the host's ``/``."""
    ignore: tuple[str, ...] = ()
    """Patterns (``*``, ``?``, ``[]``) of resources that are not offered, such as one that stands for cards of
    another."""
    remember_seconds: float = Field(default=3600, ge=0)
    """How long a card that was unhealthy stays so when its device plugin starts anew and reports it as healthy: most
    forget. A card that recovers while its device plugin runs is healthy at once."""
    allocate_seconds: Annotated[float, Field(gt=0, le=20)] = 15
    """How long a device plugin may take to answer for a claim."""
    resources: dict[str, ResourceSettings] = Field(default_factory=dict)
    """Settings by the name of the resource. One that is not named has the defaults."""

    @property
    def state_folder(self) -> str:
        """The folder with what is known of device plugins. They do not see it."""
        return f"{self.folder}-state"

    @property
    def known_file(self) -> str:
        """What device plugins have reported since the boot."""
        return f"{self.state_folder}/known.json"
