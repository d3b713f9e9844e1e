"""What a decision says of each domain: how good it is if it takes the gang, or how far it fits if it does not. Pure.

Domains that can take a gang are compared in an order that an operator can predict (``score``). The first difference
decides, the smaller value wins:

1. the number of domains of the next level that the gang uses;
2. under ``binpack``, the capacity that is left in the domain, then in the one around it, and so on outwards: larger
   gangs keep the domains that are emptier; under ``spread``, the part of its devices that is in use;
3. under ``binpack``, the blocks of 1, 2, 4, 8, ... members that these domains lose, each block counted as its size;
4. the number of its devices with taints;
5. under ``spread``, a hash of the gang's UID and the domain; then the names of the domain.

Of the others, a decision records how many members they take and what is missing (``DomainRecord``). If none takes the
gang, one line names those that come closest (``render``).
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

from controller.gangs.gang import Domain, DomainFit, Gang, TriedDomains
from controller.gangs.levels import GroupLevel
from controller.gangs.topology import Path, Topology
from controller.refusal import Refusal
from driver.limits import first_of, listed
from driver.parameters import PlacementPolicy

DomainScore = tuple[int, tuple[int, ...], int, int, str, Path]
"""Score of a domain; the smallest is best."""

_MILLION: Final = 1_000_000
_MOST_LOSSES: Final = 4_096
"""Most remembered losses: the domains around others are scored again with each of these."""
NOT_TOGETHER: Final = "they do not fit together"
NOT_WHOLE: Final = "too few sub-groups fit as a whole"
_MOST_DOMAINS: Final = 3


class Figures(NamedTuple):
    """Figures of a domain, from which its score is made.

    Attributes:
        capacity: most members that it takes.
        outer_capacities: the same for the domains around it, outermost first.
        devices: number of devices that the gang could use if none were in use.
        available: number of these that are not in use as a whole.
        tainted: number of these with taints.
    """

    capacity: int
    outer_capacities: tuple[int, ...]
    devices: int
    available: int
    tainted: int


Scoring = Callable[[Path, int, int, Figures, Gang], DomainScore]
"""A rule to compare domains by: ``score``, or another one in benchmarks."""


def score(path: Path, sub_domains: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    """Score of a domain that uses ``sub_domains`` sub-domains for ``members`` members; lower is better."""
    policy: PlacementPolicy = gang.policy  # A new one is told here, also by a type checker that remembers this module.
    match policy:
        case "spread":
            load = (figures.devices - figures.available) * _MILLION // max(1, figures.devices)
            digest = hashlib.sha256("\0".join((gang.uid, *path)).encode()).hexdigest()
            return sub_domains, (load,), 0, figures.tainted, digest, path
        case "binpack" | "firstFit":
            capacities = figures.capacity, *reversed(figures.outer_capacities)
            loss = sum(blocks_lost(capacity, members) for capacity in capacities)
            return sub_domains, tuple([capacity - members for capacity in capacities]), loss, figures.tainted, "", path
        case _:
            assert_never(policy)


@lru_cache(_MOST_LOSSES)
def blocks_lost(capacity: int, members: int) -> int:
    """Blocks of each power of two that the capacity loses to ``members`` members, each counted as its size.

    5 members leave 3 of a capacity of 8. Of 8, 4, 2 and 1 there were 1, 2, 4 and 8 blocks, and are 0, 0, 1 and 3: lost
    are 8 + 8 + 6 + 5. 5 of a capacity of 7, with 2 left, lose 0 + 4 + 4 + 5, so there they do less harm.
    """
    lost, size = 0, 1
    while size <= capacity:
        lost += size * (capacity // size - max(0, capacity - members) // size)
        size *= 2
    return lost


def apart(why: str, gang: Gang, groups: Sequence[GroupLevel]) -> str:
    """Say why members do not fit in a domain that has room for as many, with the levels that keep groups together."""
    names = ["group" if one.by_task else f"{one.size} members" if one.size else "sub-group" for one in groups]
    kept = [f"each {name} in one {gang.levels[one.depth - 1].key}" for name, one in zip(names, groups, strict=True)]
    return ", ".join([why, *kept])


class DomainRecord:
    """How far each domain fits, as one decision found out last.

    Args:
        standing: number of members with a place.
        needed: number of members to place.
    """

    def __init__(self, topology: Topology, standing: int, needed: int):
        self._topology = topology
        self._standing = standing
        self._needed = needed
        self._found: dict[Domain, DomainFit] = {}

    def record(self, path: Path, placed: int, reason: str, *, decided: bool = True) -> None:
        """Record that the domain takes only ``placed`` more members."""
        domain = self._topology.domain(path)
        standing, needed = self._standing, self._needed
        self._found[domain] = DomainFit(domain, standing + placed, standing + needed, reason, decided)

    def in_order(self) -> tuple[DomainFit, ...]:
        """How far all domains fit, in the order of paths.

        The outermost one also names nodes that cannot be used for a level.
        """
        self._record_conflicts()
        return tuple(sorted(self._found.values(), key=lambda fit: fit.domain.path))

    def _record_conflicts(self) -> None:
        conflicts = self._topology.conflicts
        for key, outer in dict.fromkeys((one.key, one.outer) for one in conflicts):
            names = [one.node for one in conflicts if (one.key, one.outer) == (key, outer)]
            who = f"{len(names)} nodes ({names[0]}, ...) are" if len(names) > 1 else f"node {names[0]} is"
            text = f"{who} in several domains of {outer}, so in none of {key}"
            known = self._found.get(Domain())
            self.record((), 0, f"{known.reason}; {text}" if known else text)


def render(refusal: Refusal[TriedDomains], most: int = _MOST_DOMAINS, now: float | None = None) -> str:
    """Name the ``most`` domains that come closest, with the members that fit there and the reason.

    Of nested domains, only the outermost ones are named. The rest is summed up.

    Args:
        now: epoch seconds, to say at what time a wider domain is taken; None to leave that out. A number of seconds
            would be wrong as soon as it is read.
    """
    if refusal.faults:
        return listed([str(fault) for fault in refusal.faults[:most]])
    fits = refusal.why.fits
    if not fits:
        return "there are no nodes"
    depth = min(len(fit.domain.path) for fit in fits)
    outermost = [fit for fit in fits if len(fit.domain.path) == depth]
    closest = sorted(outermost, key=lambda fit: (fit.placed - fit.needed, fit.decided), reverse=True)
    parts = [*map(_sentence, closest[:most]), *_rest(closest[most:]), *(_outside(refusal.why) if depth else ())]
    parts += _lacking(refusal.why.lacking, most)
    if refusal.why.values:
        parts.append(refusal.why.values)
    if refusal.after is not None and now is not None:
        at = datetime.fromtimestamp(now + refusal.after, UTC)
        parts.append(f"a wider domain is taken from {at:%H:%M} UTC on")
    return "; ".join(parts)


def _sentence(fit: DomainFit) -> str:
    if not fit.decided:
        return f"whether {fit.needed} members fit in {fit.domain} is not decided yet"
    reason = f" ({fit.reason})" if fit.reason else ""
    return f"{fit.placed} of {fit.needed} members fit in {fit.domain}{reason}"


def _rest(fits: Sequence[DomainFit]) -> Iterator[str]:
    """Sum up the domains that are not named. They take fewer members than the named ones."""
    if not fits:
        return
    undecided = sum(not fit.decided for fit in fits)
    most, needed = max(fit.placed for fit in fits), fits[0].needed
    where = f"{len(fits)} other domains" if len(fits) > 1 else "1 other domain"
    each = "each of " if len(fits) > 1 else ""
    more = f", of which {undecided} {'are' if undecided > 1 else 'is'} not decided yet" if undecided else ""
    yield f"at most {most} of {needed} in {each}{where}{more}"


def _lacking(claims: Sequence[str], most: int) -> Iterator[str]:
    if claims:
        plural = "s" if len(claims) > 1 else ""
        yield f"no node has devices now for the claim{plural} {first_of(claims, most)}"


def _outside(tried: TriedDomains) -> Iterator[str]:
    count, key = tried.outside
    if count:
        yield f"{count} {'node is' if count == 1 else 'nodes are'} in no domain, without a value of {key}"
