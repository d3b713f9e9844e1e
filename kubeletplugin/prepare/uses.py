"""What a plan makes of the hardware, device by device. Pure."""

from collections.abc import Mapping

from driver.model import Result
from kubeletplugin.hardware import Share, Use
from kubeletplugin.inventory import OfferedDevice
from kubeletplugin.prepare.plan import ClaimPlan, main_request

_MEBI = 1024**2


def uses_of(plan: ClaimPlan, offered: Mapping[str, OfferedDevice]) -> dict[tuple[str, str], Use]:
    """What the claim makes of each of its devices that is offered, by the device's name and the id of the share."""
    return {
        (result.device.device, result.share_id): Use(
            claim=plan.ref.uid,
            card=offered[result.device.device].card,
            partition=offered[result.device.device].partition,
            share=_share(result),
            together=_together(plan, main_request(result.request), offered),
        )
        for result in plan.results
        if result.device.device in offered
    }


def _share(result: Result) -> Share | None:
    if not result.share_id:
        return None
    memory, cores = result.consumed["memory"].value, result.consumed["cores"].value
    return Share(result.share_id, int(memory // _MEBI), int(cores))


def _together(plan: ClaimPlan, request: str, offered: Mapping[str, OfferedDevice]) -> tuple[str, ...]:
    names = {result.device.device for result in plan.results if main_request(result.request) == request}
    cards = {(offered[name].card.pci_bus_id, offered[name].card.uuid) for name in names if name in offered}
    return tuple(uuid for _, uuid in sorted(cards))
