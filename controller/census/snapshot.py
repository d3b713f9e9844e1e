"""A copy of what is counted. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.allocation import PublishedPool
from controller.census.card_seconds import CountedUse
from controller.census.holdings import CountedHolding
from controller.gangs import Membership
from controller.quotas import QuotaUse


class CountedPod(NamedTuple):
    """A pod that cannot be placed at present.

    Attributes:
        since: when its condition says that it waits (RFC 3339); "" if none does yet.
        seconds: how long this run of the program knows that it waits.
    """

    namespace: str
    reason: str
    since: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one moment. Nothing that it refers to changes any more.

    Attributes:
        pools: of devices of our driver.
        open: nodes that exist, are ready and not cordoned.
        holdings: by claim.
        card_seconds: since the term of leadership began.
        members: of gangs, by pod.
        placed: the node of each pod that counts on one.
        quotas: each limit of a namespace, where anybody is shown them.
    """

    pools: Sequence[PublishedPool] = ()
    open: Collection[str] = ()
    holdings: Mapping[str, CountedHolding] = field(default_factory=dict)
    card_seconds: Mapping[CountedUse, float] = field(default_factory=dict)
    waiting: Sequence[CountedPod] = ()
    members: Mapping[str, Membership] = field(default_factory=dict)
    placed: Mapping[str, str] = field(default_factory=dict)
    quotas: Sequence[QuotaUse] = ()
