"""Decides the offers of a card by the objects that exist on it, this program's own and foreign ones. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from driver.kinds import EVERY_OFFER, Offer
from kubeletplugin.hardware import Action, Card, CardState, Use
from kubeletplugin.hardware.actions import MigInstance, MigMode, VnpuInstance
from kubeletplugin.hardware.answer import Unread
from kubeletplugin.hardware.partitions import Scheme


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded actions and devices of the claims on this node."""

    keys: frozenset[str] = frozenset()
    """Keys of the actions of all claims, whether carried out or not."""
    devices: frozenset[str] = frozenset()
    """Names of the devices that claims hold."""
    placed: frozenset[tuple[str, str]] = frozenset()
    """Uuid of the card and name of the device, of each device that a claim holds, where the record says the card."""


@dataclass(frozen=True, slots=True)
class CardOffer:
    """A card with its present offers."""

    card: Card
    withheld: Mapping[Offer, str] = field(default_factory=dict)
    """Offers that the present mode of the card excludes, each with the reason and the remedy, and those that depend on
    a fact that the hardware has not told."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """Amounts of the card that foreign partitions consume, by counter; {} if there are none."""
    reason: str = ""
    """The reason of ``taken``, and the remedy; "" if nothing is taken."""


def offer_of(card: Card, state: CardState | Unread, recorded: Recorded) -> CardOffer:
    """The offers that the modes of a card and foreign partitions leave.

    Nothing is offered of a card whose state was never read, nor of one of which a claim holds what the card does not
    have now: a partition that is not known, or a device under the number of another card. Allocators could not see that
    the two exclude each other.

    Foreign partitions consume counters. Devices that do not fit beside them stay published, because a claim may have
    one of them: without the device, allocators would not know the claim's consumption. MIG mode excludes the whole card
    and its share, unless it was turned on for claims: then it ends with them, and their consumption of counters
    excludes the whole card. A device that a claim holds stays published.
    """
    if isinstance(state, Unread):
        why = f"what is on the card is not known: {state.why}"
        return _beside_claims(CardOffer(card, dict.fromkeys(EVERY_OFFER, why)), recorded)
    foreign = foreign_partitions(state, recorded.keys)
    taken, reason = {}, ""
    withheld: dict[Offer, str] = {}
    if foreign:
        taken = _taken(card, [each.action for each in state.found if each.action.key in foreign])
        reason = f"partitions that this program did not make are on it: {', '.join(foreign)}; remove them"
    elif MigMode(card.uuid).key not in recorded.keys and any(isinstance(each.action, MigMode) for each in state.found):
        mode = f"the card is in MIG mode; turn it off with nvidia-smi -i {card.uuid} -mig 0"
        withheld = {"whole": mode, "share": mode}
    elif unlisted := _unlisted(card, recorded):
        unknown = f"claims hold {', '.join(unlisted)}, of which the card says nothing now"
        why = "; ".join(filter(None, (unknown, card.partitions_unread, card.memory_unread)))
        withheld = dict.fromkeys(EVERY_OFFER, why)
    withheld |= state.excluded
    withheld |= {kind: not_known(why) for kind, why in state.unread.items()}
    return _beside_claims(CardOffer(card, withheld, taken, reason), recorded)


def _beside_claims(offer: CardOffer, recorded: Recorded) -> CardOffer:
    """The offer, in which what claims hold is not withheld."""
    card, withheld, taken, reason = offer.card, dict(offer.withheld), offer.taken, offer.reason
    if "partitions" in withheld and _names_of_partitions(card) & recorded.devices:
        # They stay published, and nothing of the card can be allocated beside them.
        taken, reason = dict(card.counters), withheld.pop("partitions")
    held = _held(card, recorded)
    return CardOffer(card, {kind: why for kind, why in withheld.items() if kind not in held}, taken, reason)


def _held(card: Card, recorded: Recorded) -> frozenset[Offer]:
    """Of the whole card and its share, what a claim holds."""
    names: dict[Offer, str] = {"whole": card.name, "share": card.share_name}
    return frozenset(kind for kind, name in names.items() if name in recorded.devices)


def _unlisted(card: Card, recorded: Recorded) -> tuple[str, ...]:
    """The devices of this card that claims hold and that the card does not have now, as far as it is known."""
    listed = (
        {card.name} | ({card.share_name} if card.memory_mib or card.bridged else set()) | _names_of_partitions(card)
    )
    return tuple(sorted(name for uuid, name in recorded.placed if uuid == card.uuid and name not in listed))


def _names_of_partitions(card: Card) -> set[str]:
    return {card.part_name(part) for part in card.scheme.partitions} if card.scheme else set()


def not_known(why: str) -> str:
    """The reason why an offer is withheld that depends on a fact that the hardware has not told."""
    return f"not known yet, and asked again: {why}"


def offer_of_use(use: Use) -> Offer:
    """The offer that a use of a device belongs to."""
    if use.partition is not None:
        return "partitions"
    return "whole" if use.share is None else "share"


def foreign_partitions(state: CardState, own: Collection[str]) -> tuple[str, ...]:
    """Keys of the partitions on a card that are not in ``own``: an operator or another program made them."""
    partitions = (each.action for each in state.found if isinstance(each.action, MigInstance | VnpuInstance))
    return tuple(sorted(action.key for action in partitions if action.key not in own))


def _taken(card: Card, foreign: Iterable[Action]) -> dict[str, int]:
    """Consumption of foreign partitions by counter; the whole card if that of one is not known."""
    everything = dict(card.counters)
    left = dict(everything)
    for action in foreign:
        draws = _draws(card.scheme, action) if card.scheme else None
        if draws is None:
            return everything
        left |= {counter: max(0, left[counter] - amount) for counter, amount in draws.items()}
    return {counter: amount - left[counter] for counter, amount in everything.items()}


def _draws(scheme: Scheme, action: Action) -> Mapping[str, int] | None:
    """Consumption of a partition; None if the scheme does not have it."""
    for partition in scheme.partitions:
        match action:
            case MigInstance(profile=profile, start=start) if (partition.profile, partition.slot) == (profile, start):
                return partition.draws
            case VnpuInstance(template=template) if partition.profile == template:
                return partition.draws
            case _:
                pass
    return None
