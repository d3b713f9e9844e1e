"""What cannot be on a card at the same time: claims whose configurations exclude each other, foreign partitions. Pure.

It is judged before anything is done, from what is recorded of the claims and from what is found on the cards.
"""

from collections.abc import Iterable, Mapping

from kubeletplugin.hardware import Action, Use
from kubeletplugin.hardware.actions import MpsDaemon, TimeSlice
from kubeletplugin.prepare.checkpoint import PreparedClaim


def excluding_claims(
    actions: Iterable[Action], used: Iterable[str], others: Iterable[PreparedClaim]
) -> Mapping[str, str]:
    """Why claims exclude what a claim wants of its cards; by the uid of the other claim.

    MPS has a card to itself, because other processes cannot use a card in its compute mode. The time slice of a card is
    one for all that run on it.

    Args:
        actions: those of the claim.
        used: the uuids of the cards that it uses.
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
    """Those of the foreign partitions that exclude a use: all for a whole card or a share, else those of its place."""
    if use.partition is None:
        return tuple(foreign)
    wanted = frozenset(action.key for action in actions)
    return tuple(key for key in foreign if key in wanted)
