"""What the fleet has, who holds it and who waits, for monitoring. Pure.

The thread that decides keeps ``Holdings`` up to date and copies a ``Snapshot`` when it is asked. All other work is done
from that copy, in another thread.

text            a snapshot as Prometheus reads it
| peers         the fleet under the names of other systems
counting        what a snapshot comes to: states of cards, totals by type, namespace and gang
| families      the names of all series, and what each means
snapshot        a copy of what is counted, and what makes it
| cards         the cards that the slices of a pool publish
holdings        what each claim holds of which card, kept up to date change by change
card_seconds    how long namespaces have held parts of cards
"""

from controller.census.card_seconds import CardSeconds, CountedUse
from controller.census.cards import DescribedCard, KnownCards
from controller.census.counting import Census, CountedCard, count
from controller.census.families import FAMILIES, Detail
from controller.census.holdings import CountedHolding, HeldDevice, Holdings
from controller.census.peers import PEERS, peer_exposition
from controller.census.snapshot import CountedPod, FleetCopies, Snapshot
from controller.census.text import exposition

__all__ = [
    "FAMILIES",
    "PEERS",
    "CardSeconds",
    "Census",
    "CountedCard",
    "CountedHolding",
    "CountedPod",
    "CountedUse",
    "DescribedCard",
    "Detail",
    "FleetCopies",
    "HeldDevice",
    "Holdings",
    "KnownCards",
    "Snapshot",
    "count",
    "exposition",
    "peer_exposition",
]
