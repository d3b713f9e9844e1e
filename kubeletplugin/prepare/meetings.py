"""Finds claims that meet in a container although the answers of a device plugin to them exclude each other.

A device plugin names in variables what a container has. It is asked for each claim, so each answer names the devices of
its claim only, and in a container with two claims the last one would win.
"""

from collections.abc import Collection, Iterator, Mapping

from driver.errors import SENSELESS, Fault, InvalidInput
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, NotFound, Object
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.actions import PluginAllocation
from kubeletplugin.prepare.card_identity import cards_of
from kubeletplugin.prepare.checkpoint import Checkpoint
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

MOST_PODS = 32
"""Pods of a claim that are looked at."""


def check_meetings(api: Api, plan: ClaimPlan, cards: Collection[Card], recorded: Checkpoint) -> None:
    """Check that no container has the claim and another one whose answer of the same device plugin sets variables.

    Asks the API only if there is such a claim on the node and this one is not prepared yet.

    Raises:
        InvalidInput: a container has both; the pod's author must ask for all devices in one claim.
        ApiError: call again.
    """
    known = recorded.claims.get(plan.ref.uid)
    if known is not None and known.state == "completed":
        return
    own = frozenset(cards_of(plan, cards).values())
    resources = {card.bridged.resource for card in cards if card.bridged and card.uuid in own}
    others = dict(_others(plan.ref, resources, recorded))
    if not others:
        return
    for container, names in _containers(api, plan.ref):
        for name in sorted(names & others.keys()):
            message = (
                f"container {container} has this claim and {name}, and the device plugin of {others[name]} sets "
                "variables for each, of which one would be lost; ask for all devices of a container in one claim"
            )
            raise InvalidInput(str(plan.ref), [Fault("status.reservedFor", message)])


def _others(ref: ClaimRef, resources: Collection[str], recorded: Checkpoint) -> Iterator[tuple[str, str]]:
    """The names of claims of the same namespace with variables of these resources, each with the resource."""
    for claim in recorded.others(ref.uid):
        for step in claim.steps if claim.plan.ref.namespace == ref.namespace else ():
            action, handle = step.action, step.handle or {}
            if isinstance(action, PluginAllocation) and action.resource in resources and handle.get(action.variables):
                yield claim.plan.ref.name, action.resource


def _containers(api: Api, ref: ClaimRef) -> Iterator[tuple[str, frozenset[str]]]:
    """The containers that have the claim, by their names, each with the names of all claims that it has."""
    for user in _users(api, ref)[:MOST_PODS]:
        try:
            pod = api.get(PODS, user, ref.namespace)
            yield from ((name, claims) for name, claims in _claims_of_containers(pod) if ref.name in claims)
        except (NotFound, *SENSELESS):
            continue


def _users(api: Api, ref: ClaimRef) -> list[str]:
    try:
        users = (api.get(RESOURCE_CLAIMS, ref.name, ref.namespace).get("status") or {}).get("reservedFor") or ()
        return [str(user["name"]) for user in users if not user.get("apiGroup") and user["resource"] == "pods"]
    except (NotFound, *SENSELESS):
        return []


def _claims_of_containers(pod: Object) -> Iterator[tuple[str, frozenset[str]]]:
    spec, status = pod["spec"], pod.get("status") or {}
    created = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    names: Mapping[str, str | None] = {
        entry["name"]: entry.get("resourceClaimName") or created.get(entry["name"])
        for entry in spec.get("resourceClaims") or ()
    }
    extended = status.get("extendedResourceClaimStatus") or {}
    by_request = {mapping["containerName"] for mapping in extended.get("requestMappings") or ()}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        entries = (container.get("resources") or {}).get("claims") or ()
        found = {names.get(entry["name"]) for entry in entries}
        if container["name"] in by_request:
            found.add(extended.get("resourceClaimName"))
        yield container["name"], frozenset(name for name in found if name)
