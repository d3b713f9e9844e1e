"""Devices for the claims of several nodes at once, where nodes share devices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controller.allocation.nodefit.candidates import NodeCandidates
from controller.allocation.requests.compiled import CompiledRequest
from controller.allocation.search.attempt import FaultyDevice, allocations
from controller.allocation.search.search import Search
from controller.allocation.search.tasks import Task
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class NodeClaims:
    """Claims that have to be allocated on one node."""

    node: str
    candidates: NodeCandidates
    request: CompiledRequest
    claims: Sequence[Claim]


def fit_together(parts: Sequence[NodeClaims], limit: int) -> list[tuple[Allocation, ...]] | None:
    """The allocations of the claims of each node, which never take the same device; None if there are none.

    Args:
        limit: the devices that the search may try.

    Raises:
        SearchEnded: the limit was reached before the search was complete.
    """
    claims: list[Claim] = []
    tasks: list[Task] = []
    starts: list[int] = []
    for part in parts:
        found = part.candidates.tasks(part.request.demands)
        if found is None:
            return None
        start = len(claims)
        starts.append(start)
        tasks += [replace(one, demand=replace(one.demand, claim=one.demand.claim + start)) for one in found]
        claims += part.claims
    search = Search(claims, tasks, limit)
    try:
        if not search.run():
            return None
    except FaultyDevice:
        return None
    answers = []
    for part, start in zip(parts, starts, strict=True):
        own = range(start, start + len(part.claims))
        picks = [replace(pick, claim=pick.claim - start) for pick in search.picks if pick.claim in own]
        answers.append(allocations(part.claims, picks, part.node))
    return answers
