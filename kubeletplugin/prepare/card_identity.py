"""The cards that a prepared claim may be using, also after cards were renumbered. Pure.

A device is named after the number of its card. These numbers can change while containers run, when a driver is reloaded
or a card is exchanged. A container keeps the card that it was started with, and may also reach the card that has the
number now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from driver.model import Result
from kubeletplugin.hardware import Card
from kubeletplugin.prepare.checkpoint import PreparedClaim
from kubeletplugin.prepare.plan import ClaimPlan


def is_on(device: str, card: Card) -> bool:
    """Whether the device is the card, a share of it or a partition of it."""
    return device == card.name or device.startswith(f"{card.name}-")


def cards_of(plan: ClaimPlan, cards: Iterable[Card]) -> dict[str, str]:
    """The uuid of the card behind each device of the plan, by the device's name."""
    known = tuple(cards)
    return {
        result.device.device: card.uuid
        for result in plan.results
        for card in known
        if is_on(result.device.device, card)
    }


def exchanged(recorded: Mapping[str, str], plan: ClaimPlan, cards: Iterable[Card]) -> tuple[str, ...]:
    """A message for each device of the plan that is on another card than recorded."""
    return tuple(
        f"device {device!r} was on card {recorded[device]} when the claim was prepared and is on card {uuid} now"
        for device, uuid in sorted(cards_of(plan, cards).items())
        if recorded.get(device, uuid) != uuid
    )


def results_in_use(claim: PreparedClaim, cards: Mapping[str, Card], boot_id: str) -> tuple[Result, ...]:
    """The results of the claim, and for a renumbered card also the results under its new number.

    After a reboot there are no containers, so only the names in the allocation count. A claim that was given up has
    neither containers nor an allocation, so only the cards that it was prepared with count.

    Args:
        cards: by uuid.
    """
    if claim.state == "stopping":
        return tuple(_on_recorded_cards(claim, cards))
    held = claim.plan.results
    moved = (it for it in _on_recorded_cards(claim, cards) if it not in held) if claim.boot_id == boot_id else ()
    return (*held, *moved)


def _on_recorded_cards(claim: PreparedClaim, cards: Mapping[str, Card]) -> Iterator[Result]:
    """The claim's results under the present names of the cards that it was prepared with, without lost cards.

    Records of the first version do not say the card.
    """
    for result in claim.plan.results:
        name = result.device.device
        card = cards.get(claim.cards.get(name, ""))
        # A card that has another number now is meant under that one. A card that is gone is meant under none: the one
        # that has taken its number is another card.
        if name not in claim.cards or (card is not None and is_on(name, card)):
            yield result
        elif card is not None:
            yield replace(result, device=replace(result.device, device=_renamed(name, card)))


def _renamed(device: str, card: Card) -> str:
    kind, _, rest = device.partition("-")
    _, dash, part = rest.partition("-")
    return f"{kind}-{card.index}{dash}{part}"
