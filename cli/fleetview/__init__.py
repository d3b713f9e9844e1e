"""The cards of a cluster and who holds what of them, from listed objects: what tables and costs are made of.

reading     reads the objects of a view with the rights of the user, page by page
| printed   holdings as text and for JSON
fleet       the view: cards with what is held of each, in the order of nodes
rules       the cards that DeviceTaintRules close
| holding   what each claim holds, as allocations say
| published  the cards that nodes publish, as ResourceSlices say
cards       a card with its amounts: what is held, what is free, and what closes it
"""

from cli.fleetview.cards import CardHolding, CardView, FleetCard, OfferedPart
from cli.fleetview.fleet import FleetView, ViewBuilder
from cli.fleetview.reading import read_cards, read_fleet

__all__ = [
    "CardHolding",
    "CardView",
    "FleetCard",
    "FleetView",
    "OfferedPart",
    "ViewBuilder",
    "read_cards",
    "read_fleet",
]
