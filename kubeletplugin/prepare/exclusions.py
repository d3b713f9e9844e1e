"""Finds what excludes a claim from a card: claims with other sharing strategies, and foreign partitions. Pure.

This is decided before any action, from the recorded claims and from the objects found on the cards.
"""

from collections.abc import Iterable, Mapping

from kubeletplugin.hardware import Action, Use
from kubeletplugin.hardware.actions import MpsDaemon, TimeSlice
from kubeletplugin.prepare.checkpoint import PreparedClaim


def excluding_claims(
    actions: Iterable[Action], used: Iterable[str], others: Iterable[PreparedClaim]
) -> Mapping[str, str]:
    """The claims that exclude the actions of a claim, by uid, each with the reason.

    MPS excludes all other uses of a card, because other processes cannot use a card in its compute mode. A card has one
    time slice for all processes.

    Args:
        actions: the actions of the claim.
        used: the uuids of the cards that the claim uses.
    """
    wanted, cards = {action.key: action for action in actions}, frozenset(used)
    found: dict[str, str] = {}
    for other in others:
        theirs = {step.action.key: step.action for step in other.steps}
        for card in sorted(cards & other.used_cards):
            mps = MpsDaemon(card).key
            if (mps in wanted) != (mps in theirs):
                found[other.plan.ref.uid] = f"card {card} can be used with MPS by all claims or by none"
        for key in sorted(wanted.keys() & theirs.keys()):
            mine, their = wanted[key], theirs[key]
            if isinstance(mine, TimeSlice) and isinstance(their, TimeSlice) and mine != their:
                found[other.plan.ref.uid] = (
                    f"card {mine.card} has one time slice for all claims: {mine.interval} is asked for, and "
                    f"{their.interval} is set"
                )
    return found


def in_the_way(use: Use, actions: Iterable[Action], foreign: Iterable[str]) -> tuple[str, ...]:
    """The foreign partitions that exclude a use: all of them for a whole card or a share, else the one in its place."""
    if use.partition is None:
        return tuple(foreign)
    wanted = frozenset(action.key for action in actions)
    return tuple(key for key in foreign if key in wanted)
