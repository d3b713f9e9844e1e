"""The cards of a simulated node, from a YAML profile.

A profile is a mapping with ``cards`` and, optionally, ``description``, ``defaults`` (for fields that a card does not
set) and ``schemes`` (partition schemes by name, beside the built-in ones). The uuid of a card without ``uuid`` is
derived from the node's name, so that two nodes with the same profile have different cards. Beside ``cards`` or in place
of them, ``devicePlugins`` has what vendors' device plugins report, by resource, and ``nodeLabels`` what their settings
read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, Any, Final

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic.alias_generators import to_camel

from driver.errors import Fault, InvalidInput
from driver.files import Files
from driver.limits import MAX_ATTRIBUTE_BYTES
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.refusals import refusal_of
from kubeletplugin.hardware.partitions import Scheme
from kubeletplugin.hardware.readings import Measure
from kubeletplugin.hardware.simulated.bridged import PciBusID, PcieRoot, ResourceEntry, bridged_cards
from kubeletplugin.hardware.simulated.schemes import SCHEMES, SchemeEntry
from kubeletplugin.hardware.vendors import Vendor


def _fits_attribute(text: str) -> str:
    if len(text.encode()) > MAX_ATTRIBUTE_BYTES:
        raise ValueError(f"longer than {MAX_ATTRIBUTE_BYTES} bytes, the limit of a device attribute")
    return text


def _known_scheme(name: str, info: ValidationInfo) -> str:
    known: Mapping[str, Scheme] = info.context or SCHEMES
    if name and name not in known:
        raise ValueError(f"unknown partition scheme: {name!r}; use one of {', '.join(known)}")
    return name


_FIELDS = ("description", "defaults", "schemes", "cards", "devicePlugins", "nodeLabels")

Text = Annotated[str, AfterValidator(_fits_attribute)]
SemanticVersion = Annotated[str, Field(pattern=r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$")]


class CardEntry(BaseModel):
    """One card of a profile. The validation context has the schemes by name; field names in YAML are camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    index: int = Field(ge=0)
    uuid: Text = ""
    vendor: Vendor
    type: Annotated[Text, Field(min_length=1)]
    model: Annotated[Text, Field(min_length=1)]
    architecture: Annotated[Text, Field(min_length=1)]
    memory_mib: int = Field(ge=0, alias="memoryMiB")
    """0 if the driver does not say it."""
    pci_bus_id: PciBusID = Field(alias="pciBusID")
    pcie_root: PcieRoot
    pcie_switch: PciBusID = ""
    driver_version: Text
    numa_node: int | None = Field(default=None, ge=0, le=1023)
    ib_cluster: Text = ""
    rail: Text = ""
    nvlink_domain: Text = ""
    links: dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]] = {}
    """Number of links by the index of the card at the other end; empty if all cards of the domain have as many."""
    compute_capability: SemanticVersion = "0.0.0"
    cuda_version: SemanticVersion = "0.0.0"
    partitions: Annotated[str, AfterValidator(_known_scheme)] = ""
    readings: dict[Measure, Annotated[float, Field(ge=0)]] = {}


_CHIPS_OF_FUNCTION: Final = frozenset({"huawei"})
"""Vendors with boards on which several chips are behind one PCI function (Atlas 300I Duo)."""
NOT_OF_CARD: Final = frozenset({"partitions", "readings"})
"""Fields of an entry that are not those of its ``Card``."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The cards of one simulated node; a ``uuid`` may still be ""."""

    cards: tuple[Card, ...]
    readings: Mapping[str, Mapping[Measure, float]] = field(default_factory=dict)
    """What a card measures of itself, always the same, by its name (``Readings.values``)."""


def profile_from(text: str, source: str) -> Profile:
    """The profile written in YAML.

    Raises:
        InvalidInput: not YAML, a field is unknown or not valid, or two cards have the same index or uuid, or two GPUs
            the same PCI address. Carries all faults at once. The author of ``source`` must change it.
    """
    try:
        raw: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(source, [Fault("", f"is not valid YAML: {error}")]) from error
    if not isinstance(raw, Mapping):
        raise InvalidInput(source, [Fault("", "must be a mapping with the field cards or devicePlugins")])
    faults = [Fault(str(name), f"unknown field; use {', '.join(_FIELDS)}") for name in raw if name not in _FIELDS]
    defaults, entries, own = raw.get("defaults", {}), raw.get("cards", []), raw.get("schemes", {})
    if not isinstance(defaults, Mapping) or not isinstance(entries, list) or not isinstance(own, Mapping):
        faults.append(Fault("cards", "must be a list of cards, and defaults and schemes must be mappings"))
        raise InvalidInput(source, faults)
    schemes = {**SCHEMES, **_schemes(own, faults)}
    merged = [{**defaults, **entry} if isinstance(entry, Mapping) else entry for entry in entries]
    cards: list[Card] = []
    readings: dict[str, Mapping[Measure, float]] = {}
    for position, entry in enumerate(merged):
        try:
            checked = CardEntry.model_validate(entry, context=schemes)
            cards.append(_card(checked, schemes))
            readings[cards[-1].name] = checked.readings
        except ValidationError as error:
            faults += faults_of(error, f"cards[{position}]")
    faults += _duplicates([entry for entry in merged if isinstance(entry, Mapping)])
    cards += _of_device_plugins(raw.get("devicePlugins", {}), raw.get("nodeLabels", {}), faults)
    if faults:
        raise InvalidInput(source, faults)
    return Profile(tuple(sorted(cards, key=lambda card: card.order)), readings)


def _of_device_plugins(plugins: Any, labels: Any, faults: list[Fault]) -> Iterator[Card]:
    """The devices of device plugins; faults are added to ``faults``."""
    if not isinstance(plugins, Mapping) or not isinstance(labels, Mapping):
        faults.append(Fault("devicePlugins", "must be a mapping of resources, and nodeLabels one of labels"))
        return
    texts = {str(name): str(value) for name, value in labels.items()}
    for resource, raw in plugins.items():
        where = f"devicePlugins[{resource}]"
        if refusal := refusal_of(str(resource)):
            faults.append(Fault(where, refusal))
            continue
        try:
            entry = ResourceEntry.model_validate(raw)
        except ValidationError as error:
            faults += faults_of(error, where)
            continue
        ids = Counter(device.id for device in entry.devices)
        faults += [Fault(f"{where}.devices", f"duplicate id: {name!r}") for name, count in ids.items() if count > 1]
        yield from bridged_cards(str(resource), entry, texts)


def _schemes(own: Mapping[str, Any], faults: list[Fault]) -> Mapping[str, Scheme]:
    """The schemes that the profile defines; their faults are added to ``faults``."""
    found = {}
    for key, entry in own.items():
        try:
            named = {"name": key, **entry} if isinstance(entry, Mapping) else entry
            found[str(key)] = SchemeEntry.model_validate(named).scheme
        except ValidationError as error:
            faults += faults_of(error, f"schemes.{key}")
    return found


def _card(entry: CardEntry, schemes: Mapping[str, Scheme]) -> Card:
    fields = entry.model_dump(exclude=set(NOT_OF_CARD))
    return Card(**fields, scheme=schemes.get(entry.partitions))


def faults_of(error: ValidationError, where: str) -> Iterator[Fault]:
    """The faults of an entry; ``where`` is the path of the entry."""
    for detail in error.errors():
        field = ".".join([where, *map(str, detail["loc"])])
        yield Fault(field, f"{detail['msg']} (found {detail.get('input')!r})")


def _duplicates(entries: list[Mapping[str, Any]]) -> Iterator[Fault]:
    for unique in ("index", "uuid", "pciBusID"):
        first_positions: dict[Any, int] = {}
        for position, entry in enumerate(entries):
            # GPUs and NPUs are numbered separately.
            key = (entry.get("vendor"), entry.get(unique)) if unique == "index" else entry.get(unique)
            if entry.get(unique) in (None, "") or (unique == "pciBusID" and entry.get("vendor") in _CHIPS_OF_FUNCTION):
                continue
            first = first_positions.setdefault(repr(key), position)
            if first != position:
                yield Fault(
                    f"cards[{position}].{unique}",
                    f"duplicate value: {entry[unique]!r} (also in cards[{first}]); change one",
                )


def shipped_profiles() -> tuple[str, ...]:
    """Names of the profiles in the package."""
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
