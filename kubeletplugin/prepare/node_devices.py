"""The node's devices as claims need them: the claim from the API, the devices from the hardware."""

from collections.abc import Iterable, Mapping

from driver.errors import Fault, InvalidInput
from driver.kinds import EVERY_OFFER
from driver.kube.api import NODES, RESOURCE_CLAIMS, Api, NotFound
from driver.model import Result
from driver.settings import Settings
from kubeletplugin import inventory
from kubeletplugin.hardware import Card, Hardware
from kubeletplugin.inventory import Fabric, OfferedDevice
from kubeletplugin.prepare import conflicts, container
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import ClaimPaths
from kubeletplugin.prepare.plan import NO_FABRIC, ClaimPlan, NodeEnvironment, plan_claim


class NodeDevices:
    """Plans and files for claims on one node. Every method may raise ApiError or TransientFault. Nothing is cached."""

    def __init__(self, api: Api, hardware: Hardware, settings: Settings, node_name: str):
        self._api = api
        self._hardware = hardware
        self._settings = settings
        self._names = settings.names
        self._node_name = node_name

    def plan(self, ref: ClaimRef) -> ClaimPlan:
        """What to prepare for a claim.

        Raises:
            InvalidInput: the claim does not exist, or cannot be prepared here as it is.
        """
        try:
            claim = self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        except NotFound as error:
            raise InvalidInput(str(ref), [Fault("", "does not exist; delete the pod that uses it")]) from error
        cards, fabric = self._hardware.cards(), self._fabric()

        def has_device(name: str) -> bool:
            return self._find(name, cards, fabric) is not None

        return plan_claim(
            claim, ref, NodeEnvironment(self._names, self._names.pool(self._node_name), has_device, fabric)
        )

    def files(self, plan: ClaimPlan, paths: ClaimPaths) -> dict[str, bytes]:
        """The files of a claim.

        Raises:
            InvalidInput: the node does not have a device of the plan any more.
        """
        cards = self._hardware.cards()
        names = sorted({result.device.device for result in plan.results})
        offered = {name: device for name in names if (device := self._find(name, cards, plan.fabric))}
        if lost := [
            Fault("", f"this node does not have the device: {name!r}") for name in names if name not in offered
        ]:
            raise InvalidInput(str(plan.ref), lost)
        nodes = {name: self._hardware.device_nodes(item.card, item.partition) for name, item in offered.items()}
        devices = {name: item.device for name, item in offered.items()}
        return container.claim_files(plan, devices, nodes, paths, self._names.attribute("uuid"))

    def conflicting_claims(self, plan: ClaimPlan, held: Mapping[str, tuple[Result, ...]]) -> frozenset[str]:
        """The claims that hold what the plan needs (``conflicts.conflicting_claims``), whatever is offered now."""
        wanted = {result.device.device for result in plan.results}
        cards = [card for card in self._hardware.cards() if any(_is_on(name, card) for name in wanted)]
        # All kinds, because a claim may have been allocated before the operator narrowed the offer.
        slots = self._settings.kubeletplugin.slots
        contents = inventory.build_inventory(cards, plan.fabric, EVERY_OFFER, slots, self._names)
        devices = {device.name: device for device in contents.devices}
        return conflicts.conflicting_claims(plan.ref.uid, plan.results, held, devices, contents.counter_sets)

    def _find(self, name: str, cards: Iterable[Card], fabric: Fabric) -> OfferedDevice | None:
        return inventory.find_device(name, cards, fabric, self._settings.kubeletplugin.slots, self._names)

    def _fabric(self) -> Fabric:
        try:
            labels = self._api.get(NODES, self._node_name)["metadata"].get("labels") or {}
        except NotFound:
            return NO_FABRIC
        return inventory.fabric_from(labels, self._settings.kubeletplugin.node_labels)


def _is_on(device: str, card: Card) -> bool:
    return device == card.name or device.startswith(f"{card.name}-")
