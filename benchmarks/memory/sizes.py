"""The clusters of the benchmark and the bars that the controller has to meet in them."""

from dataclasses import dataclass
from typing import Final

from driver.kinds import EVERY_OFFER, Offer


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster: every node has the cards of ``profile``, offered as ``offer``; the first ``claims`` pods hold a card.

    A bar is the most MiB or seconds that are allowed; 0 means none.
    """

    name: str
    nodes: int
    profile: str
    offer: tuple[Offer, ...]
    claims: int
    pods: int
    peak_bar: int = 0
    settled_bar: int = 0
    ready_bar: int = 0


SIZES: Final = (
    Size("whole-100", 100, profile="h100x8", offer=("whole",), claims=400, pods=2_000),
    Size("all-100", 100, profile="h100x8", offer=EVERY_OFFER, claims=400, pods=2_400),
    Size("whole-1000", 1_000, profile="h100x8", offer=("whole",), claims=4_000, pods=20_000),
    Size(
        "all-1050",
        1_050,
        profile="h100x8",
        offer=EVERY_OFFER,
        claims=4_000,
        pods=24_000,
        peak_bar=512,
        settled_bar=400,
        ready_bar=20,
    ),
    Size("whole-5000", 5_000, profile="h100x8", offer=("whole",), claims=20_000, pods=100_000, peak_bar=1024),
)
"""From small to large. ``all`` means that each card is offered whole, shared and in partitions."""
