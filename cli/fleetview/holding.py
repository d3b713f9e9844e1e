"""What each claim holds of which card, as its allocation says. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from cli.fleetview.cards import ALL_CORES, CardHolding, FleetCard
from driver.device_facts import card_of
from driver.kinds import CardUse
from driver.model import Claim, Consumer, Result
from driver.names import Names

Place = tuple[str, str]
"""Node and card."""
_SHARE: Final = "-share"


def holdings_of(claim: Claim, names: Names) -> Iterator[tuple[Place, CardHolding]]:
    """Yield what the claim holds of cards of the driver. Amounts are those of the allocation, which has few."""
    ending = names.pool("")
    for result in claim.allocation.results if claim.allocation else ():
        device = result.device
        if device.driver == names.driver and device.pool.endswith(ending):
            yield (
                (device.pool.removesuffix(ending), card_of(device.device)),
                CardHolding(
                    namespace=claim.namespace,
                    claim=claim.name,
                    device=device.device,
                    use=_use_of(device.device),
                    users=tuple(map(user_text, claim.reserved_for)),
                    looks_on=result.admin_access,
                    since=claim.allocation.timestamp if claim.allocation else "",
                    **_amounts(result),
                ),
            )


def with_amounts(holding: CardHolding, card: FleetCard) -> CardHolding:
    """Return the holding with the amounts that its device is published with: those of ``controller.quotas.price``."""
    if holding.use == "shared" or holding.looks_on:
        return holding
    part = card.part(holding.device)
    return replace(holding, memory=part.memory if part else None, cores=(part.cores if part else 0) or ALL_CORES)


def user_text(consumer: Consumer) -> str:
    """Return a pod by its name, and another consumer with its kind."""
    return consumer.name if consumer.is_pod else f"{consumer.resource}/{consumer.name}"


def _amounts(result: Result) -> Mapping[str, int]:
    if not result.share_id or result.admin_access:
        return {}
    named = ("memory", "cores", "slots")
    return {name: result.consumed[name].value if name in result.consumed else 0 for name in named}


def _use_of(device: str) -> CardUse:
    if device == card_of(device):
        return "whole"
    return "shared" if device.endswith(_SHARE) else "partitioned"
