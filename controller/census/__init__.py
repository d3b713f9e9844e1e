"""What the fleet has, who holds it and who waits, for monitoring. Pure.

The thread that decides keeps ``Holdings`` up to date and copies a ``Snapshot`` when it is asked. All other work is done
from that copy, in another thread.

text       a census as Prometheus reads it: the names of all series, ours and those of other systems
counting   what a snapshot comes to: states of cards, totals by type, namespace and gang
snapshot   what each claim holds of which card, and for how long, kept up to date change by change; and copies of it
"""

from controller.census.counting import Census, KnownCards, count
from controller.census.snapshot import FleetCopies, Snapshot
from controller.census.text import Detail, exposition, peer_exposition

__all__ = [
    "Census",
    "Detail",
    "FleetCopies",
    "KnownCards",
    "Snapshot",
    "count",
    "exposition",
    "peer_exposition",
]
