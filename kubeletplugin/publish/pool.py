"""Builds the pool that a node should publish from its cards, its labels and the settings."""

from collections.abc import Mapping
from dataclasses import replace

from driver.kinds import EVERY_OFFER, Offer
from driver.kube.api import Object
from driver.settings import Settings
from kubeletplugin import inventory
from kubeletplugin.inventory import Inventory, Restrictions, fabric_from, runtime_of, taints_of
from kubeletplugin.publish.cards import NodeCards
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.other_drivers import NOT_HEARD, HandedOutBy, OtherProgram, first_of
from kubeletplugin.publish.reports import ErrorReports
from kubeletplugin.publish.slices import DesiredPool, build_slices
from kubeletplugin.publish.validation import faults


class PoolBuilder:
    """Builds inventory and slices of one node. Logs once each card that cannot be published, and why."""

    def __init__(
        self,
        node_name: str,
        settings: Settings,
        dropped: DroppedFields,
        metrics: PublishingMetrics,
        reports: ErrorReports,
    ):
        self._node_name = node_name
        self._names = settings.names
        self._settings = settings.kubeletplugin
        self._dropped = dropped
        self._metrics = metrics
        self._reports = reports
        self._runtime = ""
        """What runs containers, as the Node said last: one that is registered anew does not say it for a while."""

    def inventory(self, node: Object, state: NodeCards, others: Mapping[str, tuple[OtherProgram, ...]]) -> Inventory:
        """The devices that the node offers.

        Args:
            others: other programs that hand out a card, by its name.
        """
        labels = node["metadata"].get("labels") or {}
        self._runtime = runtime_of(node) or self._runtime
        offer = self._offer(labels.get(self._settings.node_labels.offer, ""))
        contents = inventory.build_inventory(
            [item.card for item in state.offers],
            replace(fabric_from(labels, self._settings.node_labels), container_runtime=self._runtime),
            offer,
            self._settings.slots,
            self._names,
            restrictions=Restrictions(
                taints=taints_of(
                    state.health,
                    self._settings.health_taints,
                    state.releasing,
                    self._names,
                    self._served_by_others(others),
                ),
                withheld={item.card.name: tuple(item.withheld) for item in state.offers},
                taken={item.card.name: item.taken for item in state.offers},
            ),
        )
        self._report(state, contents, offer)
        return contents

    def pool(self, node: Object, contents: Inventory) -> DesiredPool | None:
        """The slices for ``contents``, as the API server stores them; None if it would refuse them."""
        uid = str(node["metadata"]["uid"])
        slices = build_slices(contents.devices, contents.counter_sets, self._node_name, self._names, uid)
        desired = DesiredPool(self._node_name, uid, self._dropped.adopt(slices))
        violations = faults(desired.slices)
        for fault in violations:
            self._reports.once("inventory is not valid", field=fault.field, reason=fault.message)
        if violations:
            self._metrics.refusals.inc()
            return None
        return desired

    def _served_by_others(self, others: Mapping[str, tuple[OtherProgram, ...]]) -> Mapping[str, HandedOutBy]:
        """The cards that another driver hands out, too, by their names, and what kind of program it is."""
        by: dict[tuple[OtherProgram, ...], list[str]] = {}
        for card, programs in others.items():
            by.setdefault(programs, []).append(card)
        for programs, cards in by.items():
            remedy = "remove that driver from this node, or exclude the node from this one; running pods keep running"
            if programs == (NOT_HEARD,):
                remedy = "the kubelet must answer at its socket pod-resources/kubelet.sock; see the line about it"
            who = ", ".join(program.text for program in programs)
            self._reports.once("cards are handed out by another driver", cards=cards, by=who, remedy=remedy)
        return {card: first_of(programs) for card, programs in others.items()}

    def _report(self, state: NodeCards, contents: Inventory, offer: tuple[Offer, ...]) -> None:
        offered = {item.card.name for item in contents.offered}
        for item in state.offers:
            reasons = {kind: why for kind, why in item.withheld.items() if kind in offer}
            if reasons or item.reason:
                self._reports.once(
                    "card is not offered as everything", card=item.card.name, withheld=reasons, taken=item.reason
                )
            elif item.card.name not in offered:
                self._reports.once("card is not offered", card=item.card.name, offer=list(offer))

    def _offer(self, label: str) -> tuple[Offer, ...]:
        offer = inventory.offer_from(label) if label else self._settings.offer
        if offer is None:
            self._reports.once(
                "node label is not valid and ignored",
                label=self._settings.node_labels.offer,
                value=label,
                remedy=f"use one or more of {', '.join(EVERY_OFFER)}, each once, joined by -",
            )
            offer = self._settings.offer
        if not self._dropped.counters:
            return offer
        # Without counters nothing keeps two kinds off one card, so each card is offered as one kind only.
        exclusive: tuple[Offer, ...] = ("whole", "share")
        return next(((kind,) for kind in exclusive if kind in offer), ())
