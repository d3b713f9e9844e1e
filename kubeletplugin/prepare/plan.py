"""From a claim as the API has it to what this node must prepare for it. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from driver.errors import Fault, InvalidInput
from driver.kube.api import Object
from driver.model import OpaqueConfig, Result
from driver.names import POD_CLAIM_NAME, Names
from driver.parameters import parameters_of
from driver.wire import allocation_from
from kubeletplugin.inventory import Facts
from kubeletplugin.prepare.claims import ClaimRef

NO_FACTS = Facts()


@dataclass(frozen=True, slots=True)
class Plan:
    """The devices of this node that a claim holds, and what names them inside the containers."""

    ref: ClaimRef
    results: tuple[Result, ...]
    """Of our driver and of this node's pool only, in the allocation's order."""
    pod_claim_name: str = ""
    """Entry of ``pod.spec.resourceClaims`` that the claim was generated for, "" for a claim named directly."""
    facts: Facts = NO_FACTS
    """What the Node said about its fabric when the claim was first prepared; later answers repeat it."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a plan is made against: the driver's names, the node's pool and devices, and the fabric it is on."""

    names: Names
    pool: str
    has_device: Callable[[str], bool]
    facts: Facts


def plan(claim: Object, ref: ClaimRef, node: Node) -> Plan:
    """What to prepare for ``claim``; without results if no device in its allocation is ours.

    Raises:
        InvalidInput: the claim is another one than the kubelet means, is not allocated, names devices this node does
            not have, or carries parameters for us that cannot be understood. All of it at once.
    """
    metadata = claim["metadata"]
    if metadata.get("uid") != ref.uid:
        found = f"found uid {metadata.get('uid')}; the claim was deleted and made again: delete the pod too"
        raise InvalidInput(str(ref), [Fault("metadata.uid", found)])
    raw = (claim.get("status") or {}).get("allocation")
    if not raw:
        raise InvalidInput(str(ref), [Fault("status.allocation", "is not set; wait until the claim is allocated")])
    allocation = allocation_from(raw)
    ours = tuple(result for result in allocation.results if result.device.driver == node.names.driver)
    faults = [*_unknown_devices(ours, node), *_unknown_parameters(allocation.config, ours, node.names)]
    if faults:
        raise InvalidInput(str(ref), faults)
    return Plan(ref, ours, (metadata.get("annotations") or {}).get(POD_CLAIM_NAME, ""), node.facts)


def main_request(request: str) -> str:
    """``main`` of ``main`` or ``main/sub``."""
    return request.partition("/")[0]


def applies_to(entry: OpaqueConfig, request: str) -> bool:
    """Whether a config entry is for ``request``: no names means all, and ``main`` means each ``main/sub``."""
    return not entry.requests or request in entry.requests or main_request(request) in entry.requests


def _unknown_devices(ours: tuple[Result, ...], node: Node) -> Iterator[Fault]:
    for index, result in enumerate(ours):
        where = f"status.allocation.devices.results of request {result.request!r} (our entry {index})"
        if result.device.pool != node.pool:
            yield Fault(f"{where}.pool", f"{result.device.pool!r} is not this node's pool {node.pool!r}")
        elif not node.has_device(result.device.device):
            lost = "was taken out or is offered no more; delete the pod, so that the claim is allocated anew"
            yield Fault(f"{where}.device", f"this node has no device {result.device.device!r}: it {lost}")


def _unknown_parameters(config: tuple[OpaqueConfig, ...], ours: tuple[Result, ...], names: Names) -> tuple[Fault, ...]:
    def concerns_us(entry: OpaqueConfig) -> bool:
        return any(applies_to(entry, result.request) for result in ours)

    # Entries that concern no device of ours keep their place, so that faults name the right index.
    judged = [entry if concerns_us(entry) else replace(entry, driver="") for entry in config]
    try:
        parameters_of(judged, names, "", "status.allocation.devices.config")
    except InvalidInput as error:
        return error.faults
    return ()
