"""Holdings as text and for JSON. Pure."""

from collections.abc import Iterator
from typing import Any

from cli.fleetview.cards import CardHolding, CardView
from driver.quantity import Quantity


def memory_text(amount: int) -> str:
    """Return bytes as an exact quantity."""
    return str(Quantity.of(amount, "BinarySI"))


def holder_texts(holding: CardHolding) -> Iterator[str]:
    """Yield who holds it, with the namespace: its pods, or the claim if nobody uses that."""
    yield from (f"{holding.namespace}/{user}" for user in holding.users or (f"claim/{holding.claim}",))


def amount_texts(holding: CardHolding) -> tuple[str, str]:
    """Return its memory and cores, as cells of a table."""
    memory = "<none>" if holding.memory is None else memory_text(holding.memory)
    return memory, "<none>" if holding.cores is None else str(holding.cores)


def holder_json(card: CardView, holding: CardHolding) -> dict[str, Any]:
    """Return what a claim holds of the card, for JSON."""
    found: dict[str, Any] = {
        "namespace": holding.namespace,
        "claim": holding.claim,
        "usedBy": list(holding.users),
        "device": holding.device,
        "memory": None if holding.memory is None else memory_text(holding.memory),
        "cores": holding.cores,
        "since": holding.since,
        "cards": round(card.fraction(holding), 4),
    }
    if holding.looks_on:
        found["adminAccess"] = True
    return {key: value for key, value in found.items() if value not in (None, "", [])}
