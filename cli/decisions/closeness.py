"""Which cards requests get and why no closer ones, as sentences, where pairs of cards differ in their links."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controller.allocation import ChosenCards, Exclusion, Obstructed
from controller.state import State
from driver.model import Claim

_GAINS: Final[Mapping[str, str]] = {
    "domains": "of {} instead of {} domains",
    "pair": "{} instead of {} links between the two with the fewest",
    "card": "{} instead of {} links between the one with the fewest and the others",
    "links": "{} instead of {} links in all",
    "switches": "behind {} instead of {} PCIe switches",
    "roots": "at {} instead of {} PCIe roots",
    "numa": "on {} instead of {} NUMA nodes",
}
"""What a closer set has better, in the order in which sets are compared (``MEASURES``)."""


def closeness_of(state: State, keys: Iterable[str]) -> Iterator[str]:
    """A sentence for each request for several linked cards, of the claims of one pod, that has its devices."""
    records = [state.claims[key] for key in keys if key in state.claims]
    claims = [record.claim for record in records if record.claim.allocation]
    found = [claim.allocation for claim in claims if claim.allocation]
    node = next((allocation.node_name for allocation in found if allocation.node_name), "")
    for claim, chosen in state.cluster.devices.chosen_cards(node, state.nodes.labels_of(node), claims, found):
        yield _sentence(state, claim, chosen)


def _sentence(state: State, claim: Claim, chosen: ChosenCards) -> str:
    measured = chosen.measured
    links = f"at least {measured['pair']} links between any two, {measured['links']} in all"
    if measured["pair"] == measured["links"]:  # they are two
        links = f"{measured['links']} links"
    text = f"claim {claim.key}, request {chosen.request}: {_listed(chosen.devices)} have {links}; "
    if not chosen.closer:
        return f"{text}no other cards of the node are closer"
    better = next(name for name in _GAINS if chosen.closer_measured[name] != measured[name])
    gain = _GAINS[better].format(chosen.closer_measured[better], measured[better])
    why = ", ".join(_why(state, one) for one in chosen.missing)
    return f"{text}{_listed(chosen.closer)} are closer ({gain}), {f'but {why}' if why else 'and available now'}"


def _why(state: State, one: Obstructed) -> str:
    if one.holders:
        known = state.cluster.devices.ledger.claim_keys
        return f"{one.device} is in use by {', '.join(known.get(uid, uid) for uid in one.holders)}"
    return f"{one.device} is {Exclusion(1, *one.cause).cause}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
