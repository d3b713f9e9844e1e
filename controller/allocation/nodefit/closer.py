"""Which cards a request got and why no closer ones, where pairs of cards differ in their links. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation.devices.columns import Columns
from controller.allocation.nodefit.candidates import NodeCandidates, consumption_of, obstacle
from controller.allocation.nodefit.closest import linked, nearness
from controller.allocation.preferences import ranks_of
from controller.allocation.reasons import Cause
from controller.allocation.requests import RequestChoice
from controller.allocation.search.attempt import Candidate
from driver.model import DeviceId

MEASURES: Final = ("domains", "pair", "card", "links", "switches", "roots", "numa")
"""What sets of cards are compared by, in order: domains, the fewest links of a pair, and of a card to all others, links
in all, PCIe switches, PCIe roots, NUMA nodes."""


@dataclass(frozen=True, slots=True)
class Obstructed:
    """A device of a closer set that the request could not have.

    Attributes:
        cause: as in ``NodeReasons``.
        holders: the UIDs of the claims that hold it.
    """

    device: str
    cause: Cause
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenCards:
    """The cards of a request for several.

    Attributes:
        request: its name in results.
        measured: the set by ``MEASURES``.
        closer: the closest set if nothing was in use or tainted; empty if no set is closer.
        closer_measured: that set by ``MEASURES``.
        missing: the devices of that set that are not available; empty if all are by now.
    """

    request: str
    devices: tuple[str, ...]
    measured: Mapping[str, int]
    closer: tuple[str, ...] = ()
    closer_measured: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[Obstructed, ...] = ()


def chosen_cards(
    node: NodeCandidates, choice: RequestChoice, given: Sequence[DeviceId], columns: Columns
) -> ChosenCards | None:
    """What was chosen for a request on the node; None if that is one card, or pairs of them do not differ in links.

    Args:
        given: the devices of the request, which it holds.
    """
    own = set(given)
    possible = list(_possible(node, choice, columns))
    # A class may name cards and their shares, which are the same cards.
    sorts = {one.device.spec.allow_multiple for one in possible if one.device.id in own}
    possible = [one for one in possible if one.device.spec.allow_multiple in sorts]
    chosen = tuple([at for at, one in enumerate(possible) if one.device.id in own])
    cards = linked(choice, possible) if len(chosen) == len(own) > 1 else None
    best = cards.best(len(chosen), ranks_of("firstFit")) if cards else None
    if cards is None or best is None:
        return None
    near, closest = nearness(cards.cards, chosen), nearness(cards.cards, best.cards)
    found = ChosenCards(choice.name, _names(possible, chosen), _measured(near))
    if closest >= near:
        return found
    return ChosenCards(
        choice.name,
        found.devices,
        found.measured,
        closer=_names(possible, best.cards),
        closer_measured=_measured(closest),
        missing=tuple(_obstructed([possible[at] for at in best.cards if at not in chosen], choice)),
    )


def _possible(node: NodeCandidates, choice: RequestChoice, columns: Columns) -> Iterator[Candidate]:
    """The devices that would be candidates if nothing was in use or tainted."""
    for device, fault in node.matching(choice.criteria):
        consumes = None if fault else consumption_of(device, choice.criteria, columns)
        if not fault and not isinstance(consumes, str):
            yield Candidate(device, consumes)


def _obstructed(candidates: Iterable[Candidate], choice: RequestChoice) -> Iterator[Obstructed]:
    for one in candidates:
        if cause := obstacle(one.device, choice.criteria, one.consumes):
            yield Obstructed(one.device.id.device, cause, tuple(sorted(one.device.use.holders)))


def _names(candidates: Sequence[Candidate], chosen: Sequence[int]) -> tuple[str, ...]:
    return tuple([candidates[at].device.id.device for at in chosen])


def _measured(near: Sequence[int]) -> Mapping[str, int]:
    return {name: abs(number) for name, number in zip(MEASURES, near, strict=True)}
