"""Records a verdict on each domain that does not take a gang."""

from collections.abc import Sequence
from typing import Final

from controller.gangs.gang import Domain, DomainVerdict, Gang
from controller.gangs.levels import GroupLevel
from controller.gangs.topology import Path, Topology

NOT_TOGETHER: Final = "they do not fit together"
NOT_WHOLE: Final = "too few sub-groups fit as a whole"


def apart(why: str, gang: Gang, groups: Sequence[GroupLevel]) -> str:
    """Say why members do not fit in a domain that has room for as many, with the levels that keep groups together."""
    kept = [
        f"each {f'{group.size} members' if group.size else 'sub-group'} in one {gang.levels[group.depth - 1].key}"
        for group in groups
    ]
    return ", ".join([why, *kept])


class Verdicts:
    """The last verdict on each domain of one decision.

    Args:
        standing: number of members with a place.
        needed: number of members to place.
    """

    def __init__(self, topology: Topology, standing: int, needed: int):
        self._topology = topology
        self._standing = standing
        self._needed = needed
        self._found: dict[Domain, DomainVerdict] = {}

    def note(self, path: Path, placed: int, reason: str, *, decided: bool = True) -> None:
        """Record that the domain takes only ``placed`` more members."""
        domain = self._topology.domain(path)
        standing, needed = self._standing, self._needed
        self._found[domain] = DomainVerdict(domain, standing + placed, standing + needed, reason, decided)

    def in_order(self) -> tuple[DomainVerdict, ...]:
        """All verdicts in the order of paths. The outermost one also names nodes that cannot be used for a level."""
        self._note_conflicts()
        return tuple(sorted(self._found.values(), key=lambda verdict: verdict.domain.path))

    def _note_conflicts(self) -> None:
        conflicts = self._topology.conflicts
        for key, outer in dict.fromkeys((one.key, one.outer) for one in conflicts):
            names = [one.node for one in conflicts if (one.key, one.outer) == (key, outer)]
            who = f"{len(names)} nodes ({names[0]}, ...) are" if len(names) > 1 else f"node {names[0]} is"
            text = f"{who} in several domains of {outer}, so in none of {key}"
            known = self._found.get(Domain())
            self.note((), 0, f"{known.reason}; {text}" if known else text)
