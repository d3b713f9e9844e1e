"""Who may do what, as data: ``docs/security.md`` shows it, and ``test_security.py`` asks a real API server.

A cell names the rule that refuses the request, or begins with ``yes`` and gives the reason why it is allowed.
"""

from collections.abc import Mapping
from typing import Final

from tests.contract.security.attacked import Flavor

Table = Mapping[str, tuple[str, ...]]
"""For each action, the cells in the order of the actors."""

ACTORS: Final[Mapping[Flavor, tuple[str, ...]]] = {
    "controller-allocated": (
        "tenant",
        "tenant with claim status",
        "plugin's token",
        "controller's token",
        "other driver",
        "kube-scheduler",
        "kubelet",
        "administrator",
    ),
    "scheduler-allocated": (
        "tenant",
        "tenant with claim status",
        "plugin's token",
        "other driver",
        "kube-scheduler",
        "kubelet",
        "administrator",
    ),
}


def _row(cells: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in cells.split("|"))


CONTROLLER_ALLOCATED: Final[Table] = {
    "allocate a device of Lode": _row(
        "RBAC | binding | RBAC | yes: task | single-allocator | single-allocator | RBAC | single-allocator"
    ),
    "clear the allocation of a claim in use": _row(
        "RBAC | binding | RBAC | yes: task | claim-in-use, single-allocator | single-allocator | RBAC"
        " | claim-in-use, single-allocator"
    ),
    "remove the reservation of a claim in use": _row(
        "RBAC | binding | RBAC | yes: task | claim-in-use | yes: trusted | RBAC | claim-in-use"
    ),
    "remove the finalizer of a claim in use": _row(
        "claim-in-use | claim-in-use | RBAC | claim-in-use, controller-writes | claim-in-use | claim-in-use | RBAC"
        " | claim-in-use"
    ),
    "delete a claim in use": _row("yes: kept | yes: kept | RBAC | RBAC | yes: kept | yes: kept | RBAC | yes: kept"),
    "give a claim another owner": _row(
        "yes: kept | yes: kept | RBAC | controller-writes | yes: kept | yes: kept | RBAC | yes: kept"
    ),
    "request a device of Lode as an extended resource": _row(
        "no-extended-resource-claims | no-extended-resource-claims | RBAC | RBAC"
        " | no-extended-resource-claims | no-extended-resource-claims | RBAC | no-extended-resource-claims"
    ),
    "allocate another driver's device": _row(
        "RBAC | binding | RBAC | controller-writes | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "mark another driver's claim as allocated without devices": _row(
        "RBAC | binding | RBAC | controller-writes | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "clear another driver's allocation": _row(
        "RBAC | binding | RBAC | controller-writes | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "say which card a claim on its own node has": _row(
        "RBAC | yes: granted | RBAC | yes: task | yes: granted | driver | RBAC | yes: trusted"
    ),
    "say which card a claim on another node has": _row(
        "RBAC | yes: granted | RBAC | yes: task | yes: granted | driver | RBAC | yes: trusted"
    ),
    "publish devices of its own node": _row(
        "RBAC | RBAC | yes: task | RBAC | own-slices | RBAC | own-slices | own-slices"
    ),
    "publish devices of another node": _row(
        "RBAC | RBAC | own-slices | RBAC | own-slices | RBAC | NodeRestriction | own-slices"
    ),
    "publish into the pool of another node": _row(
        "RBAC | RBAC | own-slices | RBAC | own-slices | RBAC | own-slices | own-slices"
    ),
    "take the name of another node's slice": _row(
        "RBAC | RBAC | own-slices | RBAC | own-slices | RBAC | own-slices | own-slices"
    ),
    "publish slices without end": _row("RBAC | RBAC | own-slices | RBAC | own-slices | RBAC | own-slices | own-slices"),
    "delete the slice of another node": _row("RBAC | RBAC | own-slices | RBAC | own-slices | RBAC | RBAC | own-slices"),
    "change the image of a pod of others": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | RBAC | yes: trusted"
    ),
    "label a pod of others": _row("RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | RBAC | yes: trusted"),
    "label a pod of others through its status": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | yes: trusted | NodeRestriction | yes: trusted"
    ),
    "say that a pod of others is ready": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | yes: trusted | NodeRestriction | yes: trusted"
    ),
    "say that a pod has its devices": _row(
        "RBAC | RBAC | RBAC | yes: task | RBAC | yes: trusted | NodeRestriction | yes: trusted"
    ),
    "remove the gate of a pod": _row("yes: own | yes: own | RBAC | yes: task | RBAC | RBAC | RBAC | yes: trusted"),
    "keep autoscalers from another node": _row(
        "RBAC | RBAC | RBAC | yes: task | RBAC | RBAC | NodeRestriction | yes: trusted"
    ),
    "label another node": _row("RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | NodeRestriction | yes: trusted"),
    "cordon another node": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | NodeRestriction | yes: trusted"
    ),
    "raise the limit of a quota in its status": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | RBAC | yes: trusted"
    ),
    "say how many pods a quota counts": _row(
        "RBAC | RBAC | RBAC | controller-writes | RBAC | RBAC | RBAC | yes: trusted"
    ),
    "say how much of its cards a quota counts": _row(
        "RBAC | RBAC | RBAC | yes: task | RBAC | RBAC | RBAC | yes: trusted"
    ),
    "make a template on demand": _row(
        "reserved-templates | reserved-templates | RBAC | yes: task | RBAC | RBAC | RBAC | reserved-templates"
    ),
    "make another template in the namespace of others": _row(
        "RBAC | RBAC | RBAC | reserved-templates | RBAC | RBAC | RBAC | yes: trusted"
    ),
    "delete a template of others": _row("RBAC | RBAC | RBAC | reserved-templates | RBAC | RBAC | RBAC | yes: trusted"),
    "delete the binding of a policy": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
}
SCHEDULER_ALLOCATED: Final[Table] = {
    "allocate a device of Lode": _row("RBAC | binding | binding | yes: granted | yes: trusted | RBAC | yes: trusted"),
    "clear the allocation of a claim in use": _row(
        "RBAC | binding | binding | claim-in-use | yes: trusted | RBAC | claim-in-use"
    ),
    "remove the reservation of a claim in use": _row(
        "RBAC | binding | binding | claim-in-use | yes: trusted | RBAC | claim-in-use"
    ),
    "remove the finalizer of a claim in use": _row(
        "claim-in-use | claim-in-use | RBAC | claim-in-use | claim-in-use | RBAC | claim-in-use"
    ),
    "delete a claim in use": _row("yes: kept | yes: kept | RBAC | yes: kept | yes: kept | RBAC | yes: kept"),
    "give a claim another owner": _row("yes: kept | yes: kept | RBAC | yes: kept | yes: kept | RBAC | yes: kept"),
    "request a device of Lode as an extended resource": _row(
        "yes: as any claim | yes: as any claim | RBAC | yes: as any claim | yes: as any claim | RBAC | yes: trusted"
    ),
    "allocate another driver's device": _row(
        "RBAC | binding | binding | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "mark another driver's claim as allocated without devices": _row(
        "RBAC | binding | binding | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "clear another driver's allocation": _row(
        "RBAC | binding | binding | yes: granted | yes: trusted | RBAC | yes: trusted"
    ),
    "say which card a claim on its own node has": _row(
        "RBAC | yes: granted | yes: task | yes: granted | driver | RBAC | yes: trusted"
    ),
    "say which card a claim on another node has": _row(
        "RBAC | yes: granted | driver | yes: granted | driver | RBAC | yes: trusted"
    ),
    "publish devices of its own node": _row("RBAC | RBAC | yes: task | own-slices | RBAC | own-slices | own-slices"),
    "publish devices of another node": _row(
        "RBAC | RBAC | own-slices | own-slices | RBAC | NodeRestriction | own-slices"
    ),
    "publish into the pool of another node": _row(
        "RBAC | RBAC | own-slices | own-slices | RBAC | own-slices | own-slices"
    ),
    "take the name of another node's slice": _row(
        "RBAC | RBAC | own-slices | own-slices | RBAC | own-slices | own-slices"
    ),
    "publish slices without end": _row("RBAC | RBAC | own-slices | own-slices | RBAC | own-slices | own-slices"),
    "delete the slice of another node": _row("RBAC | RBAC | own-slices | own-slices | RBAC | RBAC | own-slices"),
    "change the image of a pod of others": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "label a pod of others": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "label a pod of others through its status": _row(
        "RBAC | RBAC | RBAC | RBAC | yes: trusted | NodeRestriction | yes: trusted"
    ),
    "say that a pod of others is ready": _row(
        "RBAC | RBAC | RBAC | RBAC | yes: trusted | NodeRestriction | yes: trusted"
    ),
    "say that a pod has its devices": _row("RBAC | RBAC | RBAC | RBAC | yes: trusted | NodeRestriction | yes: trusted"),
    "remove the gate of a pod": _row("yes: own | yes: own | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "keep autoscalers from another node": _row("RBAC | RBAC | RBAC | RBAC | RBAC | NodeRestriction | yes: trusted"),
    "label another node": _row("RBAC | RBAC | RBAC | RBAC | RBAC | NodeRestriction | yes: trusted"),
    "cordon another node": _row("RBAC | RBAC | RBAC | RBAC | RBAC | NodeRestriction | yes: trusted"),
    "raise the limit of a quota in its status": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "say how many pods a quota counts": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "say how much of its cards a quota counts": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "make a template on demand": _row("yes: own | yes: own | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "make another template in the namespace of others": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "delete a template of others": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
    "delete the binding of a policy": _row("RBAC | RBAC | RBAC | RBAC | RBAC | RBAC | yes: trusted"),
}

TABLES: Final[Mapping[Flavor, Table]] = {
    "controller-allocated": CONTROLLER_ALLOCATED,
    "scheduler-allocated": SCHEDULER_ALLOCATED,
}


def as_markdown(flavor: Flavor) -> str:
    """The table as the page shows it."""
    rows = [("", *ACTORS[flavor]), tuple("---" for _ in ("", *ACTORS[flavor]))]
    rows += [(action, *(_cell(cell) for cell in cells)) for action, cells in TABLES[flavor].items()]
    return "\n".join(f"| {' | '.join(row)} |" if row[0] != "---" else f"|{'|'.join(row)}|" for row in rows)


def _cell(cell: str) -> str:
    return f"**{cell}**" if cell.startswith("yes") else cell
