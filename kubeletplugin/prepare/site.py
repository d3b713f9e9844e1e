"""The node as claims find it: what the API says of a claim, and what the hardware has for it."""

from collections.abc import Iterable, Mapping

from driver.errors import Fault, InvalidInput
from driver.kinds import EVERY_OFFER
from driver.kube.api import NODES, RESOURCE_CLAIMS, Api, NotFound
from driver.model import Result
from driver.settings import Settings
from kubeletplugin import inventory
from kubeletplugin.hardware import Card, Hardware
from kubeletplugin.inventory import Facts, OfferedDevice
from kubeletplugin.prepare import container, overlap
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import Places
from kubeletplugin.prepare.plan import NO_FACTS, Node, Plan, plan


class Site:
    """Answers about one node. Every method may raise ApiError or TransientFault; nothing is kept between calls."""

    def __init__(self, api: Api, hardware: Hardware, settings: Settings, node_name: str):
        self._api = api
        self._hardware = hardware
        self._settings = settings
        self._names = settings.names
        self._node_name = node_name

    def plan(self, ref: ClaimRef) -> Plan:
        """What to prepare for a claim.

        Raises:
            InvalidInput: there is no such claim, or it cannot be prepared here as it is.
        """
        try:
            claim = self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        except NotFound as error:
            raise InvalidInput(
                str(ref), [Fault("", "no such claim in the API; delete the pod that uses it")]
            ) from error
        cards, facts = self._hardware.cards(), self._facts()

        def known(name: str) -> bool:
            return self._describe(name, cards, facts) is not None

        return plan(claim, ref, Node(self._names, self._names.pool(self._node_name), known, facts))

    def files(self, plan: Plan, places: Places) -> dict[str, bytes]:
        """The files of a claim.

        Raises:
            InvalidInput: a device of the plan is not there any more.
        """
        cards = self._hardware.cards()
        named = sorted({result.device.device for result in plan.results})
        offered = {name: found for name in named if (found := self._describe(name, cards, plan.facts))}
        if lost := [Fault("", f"this node has no device {name!r} any more") for name in named if name not in offered]:
            raise InvalidInput(str(plan.ref), lost)
        nodes = {name: self._hardware.device_nodes(item.card, item.partition) for name, item in offered.items()}
        devices = {name: item.device for name, item in offered.items()}
        return container.files(plan, devices, nodes, places, self._names.attribute("uuid"))

    def blockers(self, plan: Plan, held: Mapping[str, tuple[Result, ...]]) -> frozenset[str]:
        """The claims that hold what the plan needs (``overlap.blockers``), whatever is offered at present."""
        wanted = {result.device.device for result in plan.results}
        concerned = [card for card in self._hardware.cards() if any(_is_on(name, card) for name in wanted)]
        # All kinds, because a claim may have been allocated before the operator narrowed the offer.
        slots = self._settings.kubeletplugin.slots
        found = inventory.devices(concerned, plan.facts, EVERY_OFFER, slots, self._names)
        devices = {device.name: device for device in found.devices}
        return overlap.blockers(plan.ref.uid, plan.results, held, devices, found.counter_sets)

    def _describe(self, name: str, cards: Iterable[Card], facts: Facts) -> OfferedDevice | None:
        return inventory.describe(name, cards, facts, self._settings.kubeletplugin.slots, self._names)

    def _facts(self) -> Facts:
        try:
            labels = self._api.get(NODES, self._node_name)["metadata"].get("labels") or {}
        except NotFound:
            return NO_FACTS
        return inventory.facts_from(labels, self._settings.kubeletplugin.node_labels)


def _is_on(device: str, card: Card) -> bool:
    return device == card.name or device.startswith(f"{card.name}-")
