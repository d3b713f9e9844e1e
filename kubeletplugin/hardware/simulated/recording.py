"""Records the cards of a node as a profile, with which ``SimulatedHardware`` simulates the node elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from driver.errors import InvalidInput
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Scheme
from kubeletplugin.hardware.simulated.bridged import entries_of
from kubeletplugin.hardware.simulated.profile import NOT_OF_CARD, CardEntry, faults_of
from kubeletplugin.hardware.simulated.schemes import SCHEMES, scheme_to

WIDTH = 120


def profile_of(cards: Iterable[Card], description: str) -> str:
    """The profile of a node with these cards, as YAML. ``profile_from`` reads the same cards from it.

    A scheme is written out unless it equals the built-in scheme of its name. Devices of device plugins have what the
    settings have made of them on this node.

    Raises:
        InvalidInput: a card has a value that is not valid in a profile. The backend that reported it must be corrected.
    """
    every = tuple(cards)
    present, bridged = tuple(card for card in every if not card.bridged), entries_of(every)
    schemes: dict[str, Scheme] = {}
    entries = [_entry(card, _key(card.scheme, schemes)) for card in present]
    common = _common(entries)
    document: dict[str, Any] = {"description": description}
    if own := {key: scheme_to(scheme) for key, scheme in schemes.items() if SCHEMES.get(key) != scheme}:
        document["schemes"] = own
    if common:
        document["defaults"] = common
    if entries or not bridged:
        document["cards"] = [{name: value for name, value in entry.items() if name not in common} for entry in entries]
    if bridged:
        document["devicePlugins"] = bridged
    return yaml.safe_dump(document, sort_keys=False, width=WIDTH, default_flow_style=None)


def _key(scheme: Scheme | None, schemes: dict[str, Scheme]) -> str:
    """Name of the scheme in the profile; different schemes with the same name get different ones."""
    if scheme is None:
        return ""
    key, number = scheme.name, 1
    while schemes.setdefault(key, scheme) != scheme:
        number += 1
        key = f"{scheme.name}-{number}"
    return key


def _entry(card: Card, scheme: str) -> Mapping[str, Any]:
    fields = {
        field.alias or name: getattr(card, name)
        for name, field in CardEntry.model_fields.items()
        if name not in NOT_OF_CARD
    }
    known = {scheme: card.scheme} if card.scheme else {}
    try:
        checked = CardEntry.model_validate({**fields, "partitions": scheme}, context=known)
    except ValidationError as error:
        raise InvalidInput(f"card {card.name}", list(faults_of(error, "card"))) from error
    return checked.model_dump(by_alias=True, exclude_defaults=True)


def _common(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields that are equal in all cards; none for a single card."""
    if len(entries) < 2:
        return {}
    first, *others = entries
    return {
        name: value for name, value in first.items() if all(name in entry and entry[name] == value for entry in others)
    }
