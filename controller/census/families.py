"""The names of all series of the fleet, and what each means. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal


class Detail(IntEnum):
    """How much of the fleet is served; each level has what those before it have."""

    NONE = 0
    TOTALS = 1
    CARDS = 2
    CLAIMS = 3


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name.

    Attributes:
        detail: the level from which on it is served.
    """

    help: str
    detail: Detail
    type: Literal["gauge", "counter"] = "gauge"


FAMILIES: Final[Mapping[str, Family]] = {
    "lode_fleet_cards": Family("Cards by type, IB cluster and state.", Detail.TOTALS),
    "lode_free_cards": Family("Cards of which nothing is held and that can be allocated.", Detail.TOTALS),
    "lode_largest_free_group_cards": Family("The most free cards of one node.", Detail.TOTALS),
    "lode_largest_node_cards": Family("The most cards of one node, free or not.", Detail.TOTALS),
    "lode_fleet_memory_bytes": Family("Memory of all cards.", Detail.TOTALS),
    "lode_namespace_memory_allocated_bytes": Family("Memory that the namespace's claims hold.", Detail.TOTALS),
    "lode_namespace_allocated_cards": Family(
        "Cards that the namespace's claims hold; a part counts the larger one of its parts of memory and cores.",
        Detail.TOTALS,
    ),
    "lode_namespace_card_seconds_total": Family(
        "Time for which the namespace has held cards, with parts as in lode_namespace_allocated_cards.",
        Detail.TOTALS,
        "counter",
    ),
    "lode_waiting_pods": Family("Pods that cannot be placed at present, by reason.", Detail.TOTALS),
    "lode_oldest_waiting_pod_seconds": Family("How long the pod has waited that waits longest.", Detail.TOTALS),
    "lode_unreserved_claims": Family("Claims that hold devices and that no pod uses.", Detail.TOTALS),
    "lode_card_info": Family("1 for each card.", Detail.CARDS),
    "lode_card_memory_bytes": Family("Memory of the card.", Detail.CARDS),
    "lode_card_memory_allocated_bytes": Family("Memory of the card that claims hold.", Detail.CARDS),
    "lode_card_cores_allocated_ratio": Family("Compute of the card that claims hold, of 1.", Detail.CARDS),
    "lode_card_tenants": Family("Claims that hold the card or a part of it.", Detail.CARDS),
    "lode_card_state": Family("1 for the state of the card.", Detail.CARDS),
    "lode_gang_members": Family("Members of the gang, with a place or without.", Detail.CLAIMS),
    "lode_allocation_info": Family(
        "1 for each device of a claim and pod that the claim is reserved for.", Detail.CLAIMS
    ),
    "lode_allocation_memory_bytes": Family("Memory that the claim holds of the device.", Detail.CLAIMS),
    "lode_allocation_cores_ratio": Family("Compute that the claim holds of the card, of 1.", Detail.CLAIMS),
}
"""Each name has its unit at the end: bytes, seconds, a ratio of 1, or what is counted."""
