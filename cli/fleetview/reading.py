"""Reads the objects of a view with the rights of the user, page by page."""

from cli import live
from cli.fleetview.fleet import FleetView, ViewBuilder
from driver.kube.api import DEVICE_TAINT_RULES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api
from driver.names import Names


def read_fleet(api: Api, names: Names) -> FleetView:
    """Return the cards of the whole cluster with what claims hold of them.

    Without the right to list Nodes or DeviceTaintRules the answer has a note.

    Raises:
        NoRights: the user may not list slices or claims; all missing rights at once.
        OperatorFault: see ``live.each``.
    """
    builder, missing = ViewBuilder(names), list[live.MissingRight]()
    try:
        builder.add_claims(live.each(api, RESOURCE_CLAIMS))
    except live.NoRights as error:
        missing += error.missing
    try:
        read_cards(api, builder)
    except live.NoRights as error:
        missing += error.missing
    if missing:
        raise live.NoRights(missing)
    return builder.view()


def read_cards(api: Api, builder: ViewBuilder) -> None:
    """Add the cards of the whole cluster, and what closes them, to a view.

    Raises:
        NoRights: the user may not list slices.
        OperatorFault: see ``live.each``.
    """
    builder.add_slices(live.each(api, RESOURCE_SLICES))
    for resource, add, gap in (
        (DEVICE_TAINT_RULES, builder.add_rules, "cards that rules close look open"),
        (NODES, builder.add_nodes, "cards of nodes that take no pods look open"),
    ):
        try:
            add(live.each(api, resource))
        except live.NoRights as error:
            builder.add_note(f"{error.missing[0]}: {gap}")
