"""The cards of a cluster and who holds what of them, from listed objects: what tables and costs are made of.

reading     reads the objects of a view with the rights of the user, page by page
fleet       the view: cards with what claims hold of each and what rules close it, in the order of nodes
published   the cards that nodes publish, as ResourceSlices say
cards       a card with its amounts: what is held, what is free, what closes it; and these as text
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
