"""Simulated cards, from a YAML profile.

A container that holds a simulated card sees a character device, such as ``/dev/lode/gpu-0``, which is the null device.
A card is unhealthy while a file of its name exists in the faults directory. The content of the file is the reason:
``echo "Xid 79" > <faults directory>/gpu-3``. The card is healthy again when the file is removed.

A profile is a mapping with ``cards`` and, optionally, ``description`` and ``defaults`` (fields of every card that does
not set them). A card without ``uuid`` gets one derived from the node's name, so that two nodes with one profile do not
share a card.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from driver.errors import Fault, InvalidInput, TransientFault
from driver.files import Files
from driver.limits import MAX_ATTRIBUTE_BYTES, MAX_HEALTH_MESSAGE
from kubeletplugin.hardware.card import Card, Vendor
from kubeletplugin.hardware.partitions import SCHEMES, Partition
from kubeletplugin.hardware.port import DeviceNode, Health

DEVICE_DIRECTORY = "/dev/lode"
NULL_DEVICE = ("/dev/null", 1, 3)
"""Path, major and minor number (Linux, Documentation/admin-guide/devices.txt)."""
_UUID_SPACE = uuid.UUID("6c6f6465-0000-5000-8000-73696d756c61")


def _fits_attribute(text: str) -> str:
    if len(text.encode()) > MAX_ATTRIBUTE_BYTES:
        raise ValueError(f"longer than {MAX_ATTRIBUTE_BYTES} bytes, the limit of a device attribute")
    return text


def _known_scheme(name: str) -> str:
    if name and name not in SCHEMES:
        raise ValueError(f"unknown partition scheme: {name!r}; use one of {', '.join(SCHEMES)}")
    return name


Text = Annotated[str, AfterValidator(_fits_attribute)]


class _CardEntry(BaseModel):
    """One card of a profile. The field names in YAML are camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    index: int = Field(ge=0)
    uuid: Text = ""
    vendor: Vendor
    type: Annotated[Text, Field(min_length=1)]
    model: Annotated[Text, Field(min_length=1)]
    architecture: Annotated[Text, Field(min_length=1)]
    memory_mib: int = Field(ge=1, alias="memoryMiB")
    pci_bus_id: str = Field(alias="pciBusID", pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")
    pcie_root: str = Field(pattern=r"^pci[0-9a-f]{4}:[0-9a-f]{2}$")
    driver_version: Text
    numa_node: int | None = Field(default=None, ge=0, le=1023)
    ib_cluster: Text = ""
    rail: Text = ""
    nvlink_domain: Text = ""
    compute_capability: str = Field(default="0.0.0", pattern=r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$")
    partitions: Annotated[str, AfterValidator(_known_scheme)] = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """The cards of one simulated node; a ``uuid`` may still be ""."""

    cards: tuple[Card, ...]


def profile_from(text: str, source: str) -> Profile:
    """The profile written in YAML.

    Raises:
        InvalidInput: not YAML, a field is unknown or not valid, or two cards have the same index, uuid or PCI address.
            Carries all faults at once. The author of ``source`` must change it.
    """
    try:
        raw: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(source, [Fault("", f"is not valid YAML: {error}")]) from error
    if not isinstance(raw, Mapping):
        raise InvalidInput(source, [Fault("", "must be a mapping with the field cards")])
    faults = [
        Fault(str(name), "unknown field; use description, defaults and cards")
        for name in raw
        if name not in ("description", "defaults", "cards")
    ]
    defaults, entries = raw.get("defaults", {}), raw.get("cards", [])
    if not isinstance(defaults, Mapping) or not isinstance(entries, list):
        faults.append(Fault("cards", "must be a list of cards, and defaults a mapping of card fields"))
        raise InvalidInput(source, faults)
    merged = [{**defaults, **entry} if isinstance(entry, Mapping) else entry for entry in entries]
    cards: list[Card] = []
    for position, entry in enumerate(merged):
        try:
            cards.append(_card(_CardEntry.model_validate(entry)))
        except ValidationError as error:
            faults += _faults(error, f"cards[{position}]")
    faults += _duplicates([entry for entry in merged if isinstance(entry, Mapping)])
    if faults:
        raise InvalidInput(source, faults)
    return Profile(tuple(sorted(cards, key=lambda card: (card.unit, card.index))))


def _card(entry: _CardEntry) -> Card:
    fields = entry.model_dump(exclude={"partitions"})
    return Card(**fields, scheme=SCHEMES.get(entry.partitions))


def _faults(error: ValidationError, where: str) -> Iterator[Fault]:
    for detail in error.errors():
        field = ".".join([where, *map(str, detail["loc"])])
        yield Fault(field, f"{detail['msg']} (found {detail.get('input')!r})")


def _duplicates(entries: list[Mapping[str, Any]]) -> Iterator[Fault]:
    for field in ("index", "uuid", "pciBusID"):
        first_positions: dict[Any, int] = {}
        for position, entry in enumerate(entries):
            # GPUs and NPUs are numbered separately.
            key = (entry.get("vendor"), entry.get(field)) if field == "index" else entry.get(field)
            if entry.get(field) in (None, ""):
                continue
            first = first_positions.setdefault(repr(key), position)
            if first != position:
                yield Fault(
                    f"cards[{position}].{field}",
                    f"duplicate value: {entry[field]!r} (also in cards[{first}]); change one",
                )


def shipped_profiles() -> tuple[str, ...]:
    """Names of the profiles that are part of the package."""
    folder = resources.files("kubeletplugin.hardware") / "profiles"
    return tuple(sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")))


def load_profile(name: str, files: Files) -> Profile:
    """The profile ``name``: one of ``shipped_profiles()``, the path of a YAML file (it has a "/"), or "" for no cards.

    Raises:
        InvalidInput: the profile does not exist or is not valid. The operator must change the setting
            ``kubeletplugin.profile``, the node's label, or the file.
    """
    if not name:
        return Profile(())
    if "/" in name:
        content = files.read(name)
        if content is None:
            raise InvalidInput(f"profile {name}", [Fault("", "file not found")])
        return profile_from(content.decode(errors="replace"), f"profile {name}")
    if not re.fullmatch(r"[a-z0-9-]+", name) or name not in shipped_profiles():
        known = ", ".join(shipped_profiles())
        raise InvalidInput(
            f"profile {name!r}", [Fault("", f"unknown profile; use one of {known}, or the path of a file")]
        )
    folder = resources.files("kubeletplugin.hardware") / "profiles"
    return profile_from((folder / f"{name}.yaml").read_text(), f"profile {name}")


class SimulatedHardware:
    """``Hardware`` with the cards of a profile.

    Args:
        node_name: the name that uuids are derived from.
        files: the file system with the faults directory; without it every card is healthy.
        faults_directory: see the docstring of the module; "" for none.
    """

    def __init__(
        self, profile: Profile, node_name: str = "", files: Files | None = None, faults_directory: str = ""
    ) -> None:
        self._cards = tuple(_with_uuid(card, node_name) for card in profile.cards)
        self._files = files
        self._faults = faults_directory

    def cards(self) -> tuple[Card, ...]:
        """The cards of the profile."""
        return self._cards

    def health(self) -> Mapping[str, Health]:
        """Health of every card, according to the faults directory.

        Raises:
            TransientFault: the directory cannot be read.
        """
        reasons: dict[str, str] = {}
        if self._files and self._faults:
            try:
                for name in self._files.names(self._faults):
                    text = self._files.read(f"{self._faults}/{name}")
                    if text is not None:
                        reasons[name] = text.decode(errors="replace").strip()[:MAX_HEALTH_MESSAGE] or "simulated fault"
            except OSError as error:
                raise TransientFault(f"faults directory {self._faults}: cannot be read: {error}") from error
        return {card.name: Health(card.name not in reasons, reasons.get(card.name, "")) for card in self._cards}

    def device_nodes(self, card: Card, partition: Partition | None) -> tuple[DeviceNode, ...]:
        """The null device as ``/dev/lode/<card>`` or, for a partition, ``/dev/lode/<card>-mig-<profile>-<slot>``."""
        host, major, minor = NULL_DEVICE
        return (DeviceNode(f"{DEVICE_DIRECTORY}/{card.part_name(partition)}", host, major, minor),)


def _with_uuid(card: Card, node_name: str) -> Card:
    if card.uuid:
        return card
    derived = uuid.uuid5(_UUID_SPACE, f"{node_name}/{card.name}")
    return replace(card, uuid=f"{card.unit.upper()}-{derived}")
