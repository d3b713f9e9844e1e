"""What cards cost: a table of prices by type. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driver.errors import Fault, InvalidInput

OTHERS: Final = "default"
"""The type that stands for each one that has no price of its own."""
HOURS_PER_MONTH: Final = 730.0
"""As cost reports count: 365 days in 12 months."""
_MOST: Final = 1e6
_FIELDS: Final = ("currency", "perHour")


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices of a card for an hour, by type; ``default`` stands for every other type."""

    per_hour: Mapping[str, float] = field(default_factory=dict)
    currency: str = ""

    def price(self, kind: str) -> float | None:
        """Return the price of a card of this type for an hour; None if there is none."""
        return self.per_hour.get(kind, self.per_hour.get(OTHERS))


def price_table(raw: Any, origin: str) -> PriceTable:
    """Return the table that a document says.

    Raises:
        InvalidInput: it is none; carries every fault.
    """
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"prices in {origin}", [Fault("", "not an object; write perHour with a price for each type")]
        )
    faults = [Fault(str(name), f"unknown field; write {' or '.join(_FIELDS)}") for name in raw if name not in _FIELDS]
    currency, per_hour = raw.get("currency", ""), raw.get("perHour")
    if not isinstance(currency, str) or len(currency) > 8 or not currency.isprintable():
        faults.append(Fault("currency", f"{currency!r}: write a short name such as EUR"))
    if not isinstance(per_hour, dict) or not per_hour:
        faults.append(
            Fault("perHour", "missing; write types of cards with what an hour of one costs, such as T4: 0.35")
        )
        per_hour = {}
    for kind, price in per_hour.items():
        if not isinstance(kind, str):
            faults.append(Fault(f"perHour[{kind!r}]", "a type is a text; put it into quotes"))
        if not _is_price(price):
            faults.append(Fault(f"perHour[{kind}]", f"{price!r}: write a number from 0 to a million"))
    if faults:
        raise InvalidInput(f"prices in {origin}", faults)
    return PriceTable({kind: float(price) for kind, price in per_hour.items()}, currency)


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
