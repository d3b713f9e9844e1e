"""Plans a claim: from its object in the API to the devices that this node prepares. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from driver.errors import SENSELESS, Fault, InvalidInput
from driver.kube.api import Object
from driver.limits import is_dns_label
from driver.model import OpaqueConfig, Result
from driver.names import POD_CLAIM_NAME, Names
from driver.parameters import applies_to, parameters_of
from driver.wire import allocation_from
from driver.wire.fields import text
from kubeletplugin.inventory import Fabric
from kubeletplugin.prepare.claims import ClaimRef

NO_FABRIC = Fabric()
SHARE_CAPACITIES = ("memory", "cores")
"""Capacities of which the allocation gives every share an amount."""


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """The devices of a claim on this node, with their parameters and their names in containers."""

    ref: ClaimRef
    results: tuple[Result, ...]
    """The results of this driver and of this node's pool only, in the allocation's order."""
    pod_claim_name: str = ""
    """Entry of ``pod.spec.resourceClaims`` that the claim was generated for, "" for a claim referenced by name."""
    fabric: Fabric = NO_FABRIC
    """The node's fabric when the claim was first prepared. Later results repeat it."""
    config: tuple[OpaqueConfig, ...] = ()
    """The parameters for devices of this driver, in the allocation's order."""

    def has_devices_of(self, other: "ClaimPlan") -> bool:
        """Whether both have the same devices with the same parameters. Old records have no parameters."""
        same_config = self.config == other.config or () in (self.config, other.config)
        return self.results == other.results and same_config


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """The node's facts for a plan: the driver's names, the pool, the devices and the fabric."""

    names: Names
    pool: str
    has_device: Callable[[str], bool]
    fabric: Fabric


def plan_claim(claim: Object, ref: ClaimRef, node: NodeEnvironment) -> ClaimPlan:
    """Plan ``claim``; the plan has no results if no device in the allocation is of this driver.

    Raises:
        InvalidInput: the claim cannot be decoded, has another uid, is not allocated, names devices that this node does
            not have, has shares without amounts, or has invalid parameters for this driver. Has all faults at once.
    """
    metadata = claim["metadata"]
    if metadata.get("uid") != ref.uid:
        recreated = f"another claim has this name: found uid {metadata.get('uid')}; delete the pod that uses it"
        raise InvalidInput(str(ref), [Fault("metadata.uid", recreated)])
    try:
        raw = (claim.get("status") or {}).get("allocation")
        allocation = allocation_from(raw) if raw else None
        pod_claim_name = text((metadata.get("annotations") or {}).get(POD_CLAIM_NAME))
    except (InvalidInput, *SENSELESS) as error:
        unreadable = f"cannot be decoded: {error!r}; delete the pod and the claim, so that another one is allocated"
        raise InvalidInput(str(ref), [Fault("", unreadable)]) from error
    if allocation is None:
        raise InvalidInput(str(ref), [Fault("status.allocation", "is not set; wait until the claim is allocated")])
    # A claim may have devices of several drivers. The kubelet asks each of them, and each sees only its own.
    results = tuple(result for result in allocation.results if result.device.driver == node.names.driver)
    faults = [
        *_unknown_devices(results, node),
        *_unknown_shares(results),
        *_invalid_parameters(allocation.config, results, node.names),
    ]
    if pod_claim_name and not is_dns_label(pod_claim_name):
        # It becomes part of a path and of names of variables in the container, and everybody who edits claims sets it.
        remedy = f"{pod_claim_name!r} is no DNS label; set it to the name of the entry in the pod's spec.resourceClaims"
        faults.append(Fault(f"metadata.annotations[{POD_CLAIM_NAME}]", remedy))
    if faults:
        raise InvalidInput(str(ref), faults)
    config = tuple(
        entry
        for entry in allocation.config
        if node.names.reads_parameters_of(entry.driver) and any(applies_to(entry, result.request) for result in results)
    )
    return ClaimPlan(ref, results, pod_claim_name, node.fabric, config)


def _unknown_devices(results: tuple[Result, ...], node: NodeEnvironment) -> Iterator[Fault]:
    for where, result in _each(results):
        if result.device.pool != node.pool:
            yield Fault(f"{where}.pool", f"is not this node's pool: {result.device.pool!r}; the pool is {node.pool!r}")
        elif not node.has_device(result.device.device):
            remedy = "delete the pod, so that the claim is allocated again"
            yield Fault(f"{where}.device", f"this node does not have the device: {result.device.device!r}; {remedy}")


def _unknown_shares(results: tuple[Result, ...]) -> Iterator[Fault]:
    for where, result in _each(results):
        for capacity in SHARE_CAPACITIES if result.share_id and not result.admin_access else ():
            amount = result.consumed.get(capacity)
            if amount is None or amount.nanos < 0:
                found = "is not set" if amount is None else f"must not be negative: {str(amount)!r}"
                remedy = "delete the pod, so that the claim is allocated again"
                yield Fault(f"{where}.consumedCapacity[{capacity}]", f"{found}, but the device is a share; {remedy}")


def _each(results: tuple[Result, ...]) -> Iterator[tuple[str, Result]]:
    """Each result with its place in the allocation, for messages."""
    for index, result in enumerate(results):
        yield f"status.allocation.devices.results of request {result.request!r} (entry {index} of this driver)", result


def _invalid_parameters(
    config: tuple[OpaqueConfig, ...], results: tuple[Result, ...], names: Names
) -> tuple[Fault, ...]:
    def is_relevant(entry: OpaqueConfig) -> bool:
        return any(applies_to(entry, result.request) for result in results)

    # Entries for other devices keep their place, so that faults name the right index.
    relevant = [entry if is_relevant(entry) else replace(entry, driver="") for entry in config]
    try:
        parameters_of(relevant, names, "", "status.allocation.devices.config")
    except InvalidInput as error:
        return error.faults
    return ()
