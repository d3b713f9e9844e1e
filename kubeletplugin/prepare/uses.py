"""Maps each device of a plan to a ``Use`` of the hardware. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from driver.model import Result
from driver.names import Names
from driver.parameters import Configured, GpuConfig, NpuConfig, applies_to, main_request, parameters_of
from kubeletplugin.hardware import Card, Share, Use
from kubeletplugin.hardware.vendors import facts_of
from kubeletplugin.inventory import OfferedDevice
from kubeletplugin.prepare.plan import ClaimPlan

_MEBI = 1024**2

UsesByDevice = Mapping[tuple[str, str], Use]
"""Uses by the name of the device and the id of the share."""


def uses_of(plan: ClaimPlan, offered: Mapping[str, OfferedDevice], names: Names) -> UsesByDevice:
    """The use of each offered device of the plan.

    A device with admin access is only monitored, so it needs no actions. A device that the claim both uses and monitors
    is used.
    """
    config = parameters_of(plan.config, names, str(plan.ref), "status.allocation.devices.config")
    bridged = tuple(_bridged(plan, offered))
    return {
        (result.device.device, result.share_id): Use(
            claim=plan.ref.uid,
            card=(item := offered[result.device.device]).card,
            partition=item.partition,
            share=None if result.admin_access else _share(result),
            config=None if result.admin_access else config_of(config, result.request, item.card),
            cards_of_request=_cards_of_request(plan, main_request(result.request), offered),
            cards_of_claim=bridged,
            admin=result.admin_access,
        )
        for result in sorted(plan.results, key=lambda result: not result.admin_access)
        if result.device.device in offered
    }


def config_of(config: Iterable[Configured], request: str, card: Card) -> GpuConfig | NpuConfig | None:
    """The parameters for a request's device on this card: later entries override earlier ones, field by field.

    An entry that names a strategy of sharing overrides the earlier strategy with all of its fields.
    """
    kind = facts_of(card.vendor).parameters
    merged: dict[str, object] = {}
    for entry in config:
        if isinstance(entry.parameters, kind) and applies_to(entry, request):
            fields = entry.parameters.model_dump(include=set(entry.parameters.model_fields_set))
            merged = fields if "sharing" in fields else merged | fields
    return kind.model_validate(merged) if merged else None


def _bridged(plan: ClaimPlan, offered: Mapping[str, OfferedDevice]) -> Iterator[str]:
    for result in plan.results:
        item = offered.get(result.device.device)
        if item is not None and item.card.bridged and not result.admin_access:
            slots = result.consumed["slots"].value if "slots" in result.consumed else 1
            yield from [item.card.uuid] * min(slots, len(item.card.bridged.ids) + 1)


def _share(result: Result) -> Share | None:
    if not result.share_id:
        return None
    memory, cores = result.consumed["memory"].value, result.consumed["cores"].value
    return Share(result.share_id, int(memory // _MEBI), int(cores))


def _cards_of_request(plan: ClaimPlan, request: str, offered: Mapping[str, OfferedDevice]) -> tuple[str, ...]:
    names = {result.device.device for result in plan.results if main_request(result.request) == request}
    cards = {(offered[name].card.pci_bus_id, offered[name].card.uuid) for name in names if name in offered}
    return tuple(uuid for _, uuid in sorted(cards))
