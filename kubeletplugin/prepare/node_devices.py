"""Combines the claim from the API with the devices from the hardware."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from driver.device_facts import device_statuses
from driver.errors import SENSELESS, Fault, InvalidInput, OperatorFault, TransientFault
from driver.kube.api import NODES, RESOURCE_CLAIMS, NotFound, Object, nothing
from driver.model import Allocation, Device, DeviceId, NodeRequirement, NodeSelector, NodeSelectorTerm, Result
from driver.wire.fields import text_map
from kubeletplugin import inventory
from kubeletplugin.hardware import Card, Edits
from kubeletplugin.inventory import Fabric, OfferedDevice
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import container, exclusion
from kubeletplugin.prepare.card_identity import is_on, results_in_use
from kubeletplugin.prepare.checkpoint import PreparedClaim, Step, encode_record
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import ClaimPaths
from kubeletplugin.prepare.device_status import DeviceStatusWriter
from kubeletplugin.prepare.plan import NO_FABRIC, ClaimPlan, NodeEnvironment, plan_claim
from kubeletplugin.prepare.uses import UsesByDevice, uses_of

EditsByDevice = Mapping[tuple[str, str], Edits]
"""By the name of the device and the id of the share."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Devices of these cards found so far, by name."""

    cards: tuple[Card, ...]
    fabric: Fabric
    devices: dict[str, OfferedDevice | None] = field(default_factory=dict)


class NodeDevices:
    """Plans and files for claims on one node. Answers of the API and of the hardware are not cached.

    ``plan`` calls the API and the hardware; ``cards``, ``steps_found`` and ``edits`` call the hardware. They may raise
    ApiError, TransientFault and HardwareRefusal. The other methods do no I/O.
    """

    def __init__(self, node: NodeContext, device_status: DeviceStatusWriter | None = None):
        self._api = node.api
        self._device_status = device_status
        self._hardware = node.hardware
        self._settings = node.settings
        self._names = node.settings.names
        self._node_name = node.name
        self._last = _Found((), NO_FABRIC)

    def cards(self) -> tuple[Card, ...]:
        """The cards of this node."""
        return self._hardware.source.cards()

    def plan(self, ref: ClaimRef, meanwhile: Callable[[], object] = nothing) -> tuple[ClaimPlan, tuple[Card, ...]]:
        """Plan a claim; returns the plan and the cards of this node. ``meanwhile`` is that of ``Api.get``.

        Raises:
            InvalidInput: the claim does not exist, or cannot be prepared here as it is.
            OperatorFault: the labels of the Node cannot be decoded.
        """
        cards: tuple[Card, ...] = ()

        def ask() -> None:
            nonlocal cards
            cards = self._hardware.source.cards()
            meanwhile()

        try:
            claim = self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace, meanwhile=ask)
        except NotFound as error:
            raise InvalidInput(str(ref), [Fault("", "does not exist; delete the pod that uses it")]) from error
        has_device = partial(self._has_device, cards=cards)
        environment = NodeEnvironment(self._names, self._names.pool(self._node_name), has_device, self._fabric())
        plan = plan_claim(claim, ref, environment)
        if self._device_status is not None:
            self._device_status.remember(ref, claim, self._statuses(plan, cards))
        return plan, cards

    def _statuses(self, plan: ClaimPlan, cards: Iterable[Card]) -> tuple[Object, ...]:
        """The entries of ``status.devices`` for the claim's devices, as the controller writes them."""
        here = NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", (self._node_name,)),))
        allocation, offered = Allocation(plan.results, plan.config, NodeSelector((here,))), self._offered(plan, cards)

        def published_as(device: DeviceId) -> Device | None:
            return offered[device.device].device if device.device in offered else None

        return device_statuses(allocation, self._names, published_as)

    def uses(self, plan: ClaimPlan, cards: Iterable[Card]) -> UsesByDevice:
        """The use of each device of the claim that the node has.

        Raises:
            TransientFault: a device may be that of a card, or one of its partitions, which could not be read.
        """
        for result in plan.results:
            self._has_device(result.device.device, cards)
        return uses_of(plan, self._offered(plan, cards), self._names)

    def steps_found(self, uses: UsesByDevice, taken: Collection[str]) -> tuple[Step, ...]:
        """The actions for these uses that are carried out already, with their handles.

        vNPUs are left out: an action does not say which of the existing vNPUs it created.
        """
        steps: dict[str, Step] = {}
        for use in uses.values():
            if not use.admin:
                assessment = self._hardware.control.assess(use, taken)
                found = {it.action.key: it.handle for it in assessment.state.found}
                for action in assessment.actions:
                    if action.key in found:
                        steps.setdefault(action.key, Step(action, found[action.key]))
        return tuple(steps.values())

    def edits(self, claim: PreparedClaim, uses: UsesByDevice, known: EditsByDevice) -> EditsByDevice:
        """The edits for each use of the claim's devices after its steps; only those not in ``known`` are asked for.

        Raises:
            InvalidInput: the node did not have a device of the claim when its cards were read, even if it does now.
        """
        _check_devices(claim.plan, {device for device, _ in uses})
        return {
            device: known[device] if device in known else self._hardware.control.edits(use, claim.handles)
            for device, use in uses.items()
        }

    def files(
        self, claim: PreparedClaim, cards: Iterable[Card], edits: EditsByDevice, paths: ClaimPaths
    ) -> dict[str, bytes]:
        """The files of a claim.

        Raises:
            InvalidInput: the node no longer has a device of the claim.
        """
        plan, offered = claim.plan, self._offered(claim.plan, cards)
        _check_devices(plan, offered)
        devices = {name: item.device for name, item in offered.items()}
        uuid, record = self._names.attribute("uuid"), encode_record(claim)
        return container.claim_files(plan, devices, edits, paths, uuid=uuid, record=record)

    def conflicting_claims(
        self, plan: ClaimPlan, cards: Iterable[Card], held: Iterable[PreparedClaim], boot_id: str
    ) -> frozenset[str]:
        """The claims that conflict with the plan (``exclusion.by_devices``), whatever is offered now.

        A claim that holds a device of a card that the card does not have now, as far as it is known, conflicts with
        every use of the card.
        """
        wanted, known = {result.device.device for result in plan.results}, tuple(cards)
        own = [card for card in known if any(is_on(name, card) for name in wanted)]

        def matters(result: Result) -> bool:
            name = result.device.device
            return name in wanted or any(is_on(name, card) for card in own)

        by_uuid = {card.uuid: card for card in known}
        results = {
            claim.plan.ref.uid: [it for it in results_in_use(claim, by_uuid, boot_id) if matters(it)] for claim in held
        }
        # By far the most claims: one device, and nobody on its card. The inventory need not be built for them.
        if len(plan.results) == 1 and not any(results.values()):
            return frozenset()
        # Of all kinds, because a claim may have been allocated before the operator narrowed the offer.
        named = wanted | {it.device.device for each in results.values() for it in each}
        devices = {name: item.device for name, item in self._devices(named, plan.fabric, known).items()}
        sets = inventory.counter_sets(own)
        found = exclusion.by_devices(plan.ref.uid, plan.results, results, devices, sets)
        names = [result.device.device for result in plan.results if not result.admin_access]
        used = [card for card in own if any(is_on(name, card) for name in names)]
        return found | {
            uid
            for uid, each in results.items()
            for it in each
            if uid != plan.ref.uid
            and not it.admin_access
            and it.device.device not in devices
            and any(is_on(it.device.device, card) for card in used)
        }

    def _offered(self, plan: ClaimPlan, cards: Iterable[Card]) -> dict[str, OfferedDevice]:
        return self._devices(dict.fromkeys(result.device.device for result in plan.results), plan.fabric, cards)

    def _devices(self, names: Iterable[str], fabric: Fabric, cards: Iterable[Card]) -> dict[str, OfferedDevice]:
        """The devices of these names that the cards have."""
        known, slots, last = tuple(cards), self._settings.kubeletplugin.slots, self._last
        if (last.cards, last.fabric) != (known, fabric):
            last = self._last = _Found(known, fabric)
        found: dict[str, OfferedDevice] = {}
        for name in names:
            if name not in last.devices:
                last.devices[name] = inventory.find_device(name, known, fabric, slots, self._names)
            if (device := last.devices[name]) is not None:
                found[name] = device
        return found

    def _has_device(self, name: str, cards: Iterable[Card]) -> bool:
        """Whether the node has the device. Raises TransientFault if that is not known."""
        known = tuple(cards)
        if inventory.has_device(name, known):
            return True
        unread = [f"card {card.name}: {why}" for card in known if is_on(name, card) and (why := _unread(name, card))]
        # The card may be one that could not be read. Refusing the claim for good would be wrong then: it is tried
        # again.
        if not any(is_on(name, card) for card in known):
            unread += self._hardware.source.unread_cards()
        if unread:
            raise TransientFault(f"{name}: whether this node has it is not known: {'; '.join(unread)}")
        return False

    def _fabric(self) -> Fabric:
        try:
            labels = text_map(self._api.get(NODES, self._node_name)["metadata"].get("labels"))
        except NotFound:
            return NO_FABRIC
        except SENSELESS as error:
            remedy = "correct it; containers are told the fabric that they say"
            message = f"Node {self._node_name}: metadata.labels: cannot be decoded: {error!r}; {remedy}"
            raise OperatorFault(message) from error
        return inventory.fabric_from(labels, self._settings.kubeletplugin.node_labels)


def _unread(name: str, card: Card) -> str:
    """Why it is not known whether a card has this share or partition; "" if it is."""
    return card.memory_unread if name == card.share_name else card.partitions_unread


def _check_devices(plan: ClaimPlan, present: Collection[str]) -> None:
    """Raise InvalidInput if a device of the claim is not among those that the node has."""
    names = sorted({result.device.device for result in plan.results})
    if lost := [Fault("", f"this node does not have the device: {name!r}") for name in names if name not in present]:
        raise InvalidInput(str(plan.ref), lost)
