"""The node's devices as claims need them: the claim from the API, the devices from the hardware."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from driver.errors import Fault, InvalidInput
from driver.kinds import EVERY_OFFER
from driver.kube.api import NODES, RESOURCE_CLAIMS, Api, NotFound
from driver.settings import Settings
from kubeletplugin import inventory
from kubeletplugin.hardware import Card, Edits, Hardware
from kubeletplugin.inventory import Fabric, OfferedDevice
from kubeletplugin.prepare import conflicts, container
from kubeletplugin.prepare.card_identity import cards_of, is_on, results_in_use
from kubeletplugin.prepare.checkpoint import PreparedClaim, encode_record
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import ClaimPaths
from kubeletplugin.prepare.plan import NO_FABRIC, ClaimPlan, NodeEnvironment, plan_claim
from kubeletplugin.prepare.uses import uses_of


@dataclass(frozen=True, slots=True)
class HardwareAnswer:
    """What the hardware says about the devices of one plan.

    It is asked before the lock is taken: hardware can be slow, and nothing else on the node must wait for it.
    """

    cards: tuple[Card, ...]
    edits: Mapping[tuple[str, str], Edits]
    """What containers need for each device of the plan that the node has, by the device's name and the share's id."""


class NodeDevices:
    """Plans and files for claims on one node. Nothing is cached.

    ``plan`` asks the API and ``ask`` the hardware: they may raise ApiError and TransientFault. The other methods do not
    wait for anything.
    """

    def __init__(self, api: Api, hardware: Hardware, settings: Settings, node_name: str):
        self._api = api
        self._hardware = hardware
        self._settings = settings
        self._names = settings.names
        self._node_name = node_name

    def plan(self, ref: ClaimRef) -> tuple[ClaimPlan, HardwareAnswer]:
        """What to prepare for a claim, and the hardware's answer about it.

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

        environment = NodeEnvironment(self._names, self._names.pool(self._node_name), has_device, fabric)
        plan = plan_claim(claim, ref, environment)
        return plan, self._answer(plan, cards)

    def ask(self, plan: ClaimPlan) -> HardwareAnswer:
        """The hardware's answer about a plan that was made earlier."""
        return self._answer(plan, self._hardware.cards())

    def files(self, plan: ClaimPlan, answer: HardwareAnswer, paths: ClaimPaths) -> dict[str, bytes]:
        """The files of a claim.

        Raises:
            InvalidInput: the node does not have a device of the plan any more.
        """
        names = sorted({result.device.device for result in plan.results})
        offered = {name: device for name in names if (device := self._find(name, answer.cards, plan.fabric))}
        if lost := [
            Fault("", f"this node does not have the device: {name!r}") for name in names if name not in offered
        ]:
            raise InvalidInput(str(plan.ref), lost)
        devices = {name: item.device for name, item in offered.items()}
        record = encode_record(plan, cards_of(plan, answer.cards))
        return container.claim_files(plan, devices, answer.edits, paths, self._names.attribute("uuid"), record)

    def conflicting_claims(
        self, plan: ClaimPlan, answer: HardwareAnswer, held: Iterable[PreparedClaim], boot_id: str
    ) -> frozenset[str]:
        """The claims that hold what the plan needs (``conflicts.conflicting_claims``), whatever is offered now."""
        wanted = {result.device.device for result in plan.results}
        cards = [card for card in answer.cards if any(is_on(name, card) for name in wanted)]
        # All kinds, because a claim may have been allocated before the operator narrowed the offer.
        slots = self._settings.kubeletplugin.slots
        contents = inventory.build_inventory(cards, plan.fabric, EVERY_OFFER, slots, self._names)
        devices = {device.name: device for device in contents.devices}
        results = {claim.plan.ref.uid: results_in_use(claim, answer.cards, boot_id) for claim in held}
        return conflicts.conflicting_claims(plan.ref.uid, plan.results, results, devices, contents.counter_sets)

    def _answer(self, plan: ClaimPlan, cards: tuple[Card, ...]) -> HardwareAnswer:
        names = {result.device.device for result in plan.results}
        offered = {name: device for name in names if (device := self._find(name, cards, plan.fabric))}
        edits = {key: self._hardware.edits(use, {}) for key, use in uses_of(plan, offered).items()}
        return HardwareAnswer(cards, edits)

    def _find(self, name: str, cards: Iterable[Card], fabric: Fabric) -> OfferedDevice | None:
        return inventory.find_device(name, cards, fabric, self._settings.kubeletplugin.slots, self._names)

    def _fabric(self) -> Fabric:
        try:
            labels = self._api.get(NODES, self._node_name)["metadata"].get("labels") or {}
        except NotFound:
            return NO_FABRIC
        return inventory.fabric_from(labels, self._settings.kubeletplugin.node_labels)
