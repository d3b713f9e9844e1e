"""Why a pod's claims do not fit a node, counted; a value, so that nodes with equal reasons can be told together."""

from dataclasses import dataclass

from controller.allocation.demand import ClaimFault

MOST_HOLDERS = 3
"""Claims named as users of the devices somebody else wants."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """How many devices one thing excludes."""

    count: int
    cause: str
    """``device class selector``, ``selector 2``, ``taint key=value:NoSchedule``, ``capacity memory``, ``in use`` ..."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One way to satisfy a request, and what became of the devices of the node for it.

    ``available`` counts the devices that fit it alone; if these suffice, other requests took them.
    """

    claim: str
    request: str
    device_class: str
    wanted: int | str
    seen: int
    available: int
    exclusions: tuple[Exclusion, ...]
    holders: tuple[str, ...] = ()
    """Some of the claims that hold matching devices, ``namespace/name``."""
    freeing: tuple[str, ...] = ()
    """Claims whose end would leave enough devices; empty where a few would not do."""

    @property
    def missing(self) -> int:
        """How many devices more it needs."""
        wanted = self.wanted if isinstance(self.wanted, int) else self.available + 1
        return max(0, wanted - self.available)


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """A "no", with its reasons.

    Attributes:
        faults: claims that are wrong as written and can be allocated on no node.
        shortages: requests for which the node has too few devices; also those that fit alone, but not together.
        together: set if every request fits alone: what the last one that failed lost its devices to.
        pools: pools of the node that cannot be used, and why.
        undecided: the search was cut short; this is no proof that the claims cannot fit.
    """

    faults: tuple[ClaimFault, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    together: tuple[Exclusion, ...] = ()
    pools: tuple[str, ...] = ()
    undecided: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason as one sentence."""
        return sentences(self)


def sentences(answer: Unsatisfiable) -> tuple[str, ...]:
    """The reasons in words, most telling first."""
    found = [str(fault) for fault in answer.faults]
    found += [_shortage(shortage) for shortage in answer.shortages]
    if answer.together:
        found.append("every request fits alone, but not together: " + _excluded(answer.together))
    if answer.undecided:
        found.append("the search was cut short before all combinations were tried; this is no proof that none fits")
    found += [f"pool {pool}" for pool in answer.pools]
    return tuple(found)


def _shortage(shortage: Shortage) -> str:
    head = f"claim {shortage.claim}, request {shortage.request}: wants {shortage.wanted} of {shortage.device_class}, "
    text = head + f"{shortage.available} of {shortage.seen} devices fit"
    if shortage.exclusions:
        text += f" ({_excluded(shortage.exclusions)})"
    if shortage.holders:
        text += f"; in use by {', '.join(shortage.holders)}"
    if shortage.freeing:
        text += f"; freeing {', '.join(shortage.freeing)} would do"
    return text


def _excluded(exclusions: tuple[Exclusion, ...]) -> str:
    return ", ".join(f"{exclusion.count} {exclusion.cause}" for exclusion in exclusions)
