"""What a card can be offered as now, from what exists on it and what of that is this program's own. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from driver.kinds import Offer
from kubeletplugin.hardware import Action, Card, CardState, Partition
from kubeletplugin.hardware.actions import MigInstance, MigMode, VnpuInstance
from kubeletplugin.hardware.partitions import Scheme


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of the claims on this node."""

    keys: frozenset[str] = frozenset()
    """Of the actions of all claims, whether they are carried out or not."""
    devices: frozenset[str] = frozenset()
    """The names of the devices that claims hold."""


@dataclass(frozen=True, slots=True)
class CardOffer:
    """A card as it can be offered now."""

    card: Card
    """With the partitions and the counters that are left."""
    withheld: Mapping[Offer, str] = field(default_factory=dict)
    """What the card is not offered as, each with the reason and the remedy."""
    reduced: str = ""
    """Why some partitions are not offered although others are; "" if all are, or none."""


def offer_of(card: Card, state: CardState, recorded: Recorded) -> CardOffer:
    """The card without what its modes, and partitions of somebody else, exclude.

    Partitions of somebody else exclude the whole card, its share, and the partitions that do not fit beside them. MIG
    mode excludes the whole card and its share, unless it was turned on for claims: then it goes with them, and the
    counters that the claims consume say what is free. A device that a claim holds stays: without it, allocators would
    not know what the claim consumes.
    """
    foreign = foreign_partitions(state, recorded.keys)
    withheld: dict[Offer, str] = {}
    reason = reduced = ""
    if foreign:
        reason = f"partitions that this program did not make are on it: {', '.join(foreign)}; remove them"
    elif MigMode(card.uuid).key not in recorded.keys and any(isinstance(each.action, MigMode) for each in state.found):
        reason = f"the card is in MIG mode; turn it off with nvidia-smi -i {card.uuid} -mig 0"
    if reason:
        withheld = {"whole": reason, "share": reason}
    left = card
    if foreign and card.scheme:
        others = [each.action for each in state.found if each.action.key in foreign]
        scheme = _beside(card, card.scheme, others, recorded)
        left = replace(card, scheme=scheme)
        if not scheme.partitions:
            withheld["partitions"] = reason
        elif len(scheme.partitions) < len(card.scheme.partitions):
            reduced = reason
    withheld |= state.excluded
    held: dict[Offer, bool] = {"whole": card.name in recorded.devices, "share": card.share_name in recorded.devices}
    return CardOffer(left, {kind: why for kind, why in withheld.items() if not held.get(kind)}, reduced)


def foreign_partitions(state: CardState, own: Collection[str]) -> tuple[str, ...]:
    """The keys of the partitions on a card that are not among ``own``: an operator or another program made them."""
    partitions = (each.action for each in state.found if isinstance(each.action, MigInstance | VnpuInstance))
    return tuple(sorted(action.key for action in partitions if action.key not in own))


def _beside(card: Card, scheme: Scheme, foreign: Iterable[Action], recorded: Recorded) -> Scheme:
    """What is left of a scheme beside partitions of somebody else; nothing if it is not known what they consume."""
    left = dict(scheme.counters)
    for action in foreign:
        draws = _draws(scheme, action)
        if draws is None:
            left = dict.fromkeys(left, 0)
            break
        left |= {counter: max(0, left[counter] - amount) for counter, amount in draws.items()}

    def stays(partition: Partition) -> bool:
        fits = all(amount <= left[counter] for counter, amount in partition.draws.items())
        return fits or card.part_name(partition) in recorded.devices

    return replace(scheme, counters=left, partitions=tuple(filter(stays, scheme.partitions)))


def _draws(scheme: Scheme, action: Action) -> Mapping[str, int] | None:
    """What a partition consumes; None if the scheme does not have it."""
    for partition in scheme.partitions:
        match action:
            case MigInstance(profile=profile, start=start) if (partition.profile, partition.slot) == (profile, start):
                return partition.draws
            case VnpuInstance(template=template) if partition.profile == template:
                return partition.draws
            case _:
                pass
    return None
