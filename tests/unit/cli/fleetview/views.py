"""Views of small fleets, and claims that hold devices in them."""

from collections.abc import Iterable
from typing import Any

from cli.fleetview import CardView, FleetView, ViewBuilder
from driver.kube.api import Object
from driver.names import Names
from tests.unit.cli.cluster import allocated, claim

NAMES = Names()


def held(name: str, place: str, *users: str, namespace: str = "default", **result: Any) -> Object:
    """A claim that holds ``node/device``; ``memory`` and ``cores`` make it a share."""
    amounts = {key: str(result.pop(key)) for key in ("memory", "cores") if key in result}
    share = {"shareID": f"uid-{name}", "consumedCapacity": amounts} if amounts else {}
    raw = claim(name)
    raw["metadata"]["namespace"] = namespace
    return allocated(raw, place, *users, **share, **result)


def view_of(
    slices: Iterable[Object],
    claims: Iterable[Object] = (),
    *,
    rules: Iterable[Object] = (),
    nodes: Iterable[Object] = (),
) -> FleetView:
    builder = ViewBuilder(NAMES)
    builder.add_slices(slices)
    builder.add_claims(claims)
    builder.add_rules(rules)
    builder.add_nodes(nodes)
    return builder.view()


def card_of(view: FleetView, key: str) -> CardView:
    return next(card for card in view.cards if card.facts.key == key)


def states(view: FleetView) -> dict[str, str]:
    return {card.facts.key: card.state for card in view.cards}
