"""The reasons why a node does not take a pod, as values, so that nodes with equal reasons can be grouped."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from driver.errors import Fault
from driver.wire import Json

MOST_HOLDERS: Final = 3
"""The most claims that a message names as holders of devices."""
MOST_CAUSES: Final = 12
"""The most causes that are distinguished for one request. The rarest are counted together."""
_MOST_TEXT: Final = 200


By = Literal[
    "classSelector",
    "selector",
    "selectorError",
    "taint",
    "capacity",
    "noCapacity",
    "capacityLeft",
    "sharing",
    "counter",
    "inUse",
    "pool",
    "matchAttribute",
    "distinctAttribute",
    "alignWith",
    "otherRequests",
    "other",
]
"""The reason why a device is excluded; ``_WORDS`` has the texts.

- ``selector``: a selector of the request, by its number, with the device's values of the attributes that it reads;
- ``capacity``: the device never has enough of a capacity, with the most that it has for one claim;
- ``capacityLeft``: other claims consume too much of a capacity;
- ``sharing``: claims share the device with another strategy than the request's, or with another time slice;
- ``counter``: other devices of the card in use leave too little of a shared counter;
- ``matchAttribute``, ``distinctAttribute``: the device conflicts with devices picked for the claim;
- ``alignWith``: the device conflicts with devices of another claim of the pod;
- ``otherRequests``: other requests of the pod need the device, or its counters or capacity;
- ``other``: further causes, by their number.
"""
Cause = tuple[By, str]
"""The reason why a device is excluded, with a selector, taint, capacity, counter or attribute."""

_WORDS: Final[dict[By, str]] = {
    "classSelector": "excluded by device class selector",
    "selector": "excluded by selector {}",
    "selectorError": "failed {}",
    "taint": "tainted {}",
    "capacity": "too small ({})",
    "noCapacity": "without capacity {}",
    "capacityLeft": "with too little {} left",
    "counter": "blocked by counter {}",
    "sharing": "shared with {}",
    "inUse": "in use",
    "pool": "pool not usable",
    "matchAttribute": "matchAttribute {}",
    "distinctAttribute": "distinctAttribute {}",
    "alignWith": "{}",
    "otherRequests": "{}",
    "other": "for {} other reasons",
}
_FOR_GOOD: Final[frozenset[By]] = frozenset(("classSelector", "selector", "selectorError", "capacity", "noCapacity"))
"""Causes that exclude a device whatever is in use."""
_NOT_SHAREABLE: Final = "cannot be shared, so memoryPercent does not apply"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The number of devices that one cause excludes."""

    count: int
    by: By
    name: str = ""
    on: str = field(default="", compare=False)
    """One of the devices on which a selector fails. Nodes differ in it that are alike otherwise."""

    @property
    def cause(self) -> str:
        """The cause as text, to follow the number of devices."""
        if (self.by, self.name) == ("capacity", "memoryPercent"):
            return _NOT_SHAREABLE
        return _WORDS[self.by].format(self.name[:_MOST_TEXT]) + (f" (on {self.on})" if self.on else "")

    def to_json(self) -> Json:
        """JSON with the keys count, by, name and text."""
        return {"count": self.count, "by": self.by, "name": self.name[:_MOST_TEXT], "text": self.cause}


def exclusions(counted: Iterable[tuple[Cause, int]], on: Mapping[Cause, str] | None = None) -> tuple[Exclusion, ...]:
    """The most frequent causes first, at most ``MOST_CAUSES`` and one for the rest.

    Args:
        on: for selectors that fail, one of the devices.
    """
    ordered = sorted(counted, key=lambda entry: (-entry[1], entry[0]))
    found = [Exclusion(count, *cause, (on or {}).get(cause, "")) for cause, count in ordered[:MOST_CAUSES]]
    if rest := ordered[MOST_CAUSES:]:
        found.append(Exclusion(sum(count for _, count in rest), "other", str(len(rest))))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Shortage:
    """One choice of a request, and the number of devices of one or several nodes that are excluded from it.

    ``available`` counts the devices that fit the request alone. If these are sufficient, other requests need them.
    """

    claim: str
    request: str
    device_class: str
    wanted: int | str
    seen: int
    available: int
    exclusions: tuple[Exclusion, ...]
    holders: tuple[str, ...] = ()
    """Some of the claims that hold matching devices, ``namespace/name``, in order."""
    more_holders: int = 0
    """The number of further claims that hold some."""
    freeing: tuple[str, ...] = ()
    """Claims whose end would free enough devices for this request alone. Empty if a few are not sufficient, or if
    constraints apply."""
    as_share: bool = False
    """Whether it wants shares, although the class names whole cards (``driver.nvidia_dra``)."""
    incomplete: bool = False
    """Whether slices of a pool are missing that may have such devices, so that nobody knows how many there are."""

    @property
    def missing(self) -> int:
        """The number of devices that are missing."""
        wanted = self.wanted if isinstance(self.wanted, int) else self.available + 1
        return max(0, wanted - self.available)

    @property
    def at_most(self) -> int:
        """An upper bound on the devices seen that would fit if nothing was in use: partitions of one card all count."""
        return self.seen - sum(one.count for one in self.exclusions if one.by in _FOR_GOOD)

    @property
    def for_good(self) -> bool:
        """True if the nodes lack devices for this choice whatever is in use."""
        return not self.incomplete and self.at_most < (self.wanted if isinstance(self.wanted, int) else 1)

    def to_json(self) -> Json:
        """JSON: claim, request, deviceClass, wanted, devices, fit, excluded, inUseBy, inUseByMore, freeing."""
        return {
            "claim": self.claim,
            "request": self.request,
            "deviceClass": self.device_class,
            "wanted": self.wanted,
            "devices": self.seen,
            "fit": self.available,
            "excluded": [one.to_json() for one in self.exclusions],
            "inUseBy": list(self.holders),
            "inUseByMore": self.more_holders,
            "freeing": list(self.freeing),
        }


@dataclass(frozen=True, slots=True)
class NodeReasons:
    """The reasons why one node does not take a pod: the node itself, or else its devices.

    Attributes:
        predicates: why the node refuses the pod, whatever its devices.
        faults: what is wrong with the claims as written, so that no node fits.
        shortages: requests for which the node has too few devices, also those that fit alone but not together.
        together: if every request fits alone: the causes that exclude devices from the last request that failed.
        pools: pools of the node that cannot be used, and why.
        undecided: whether the search was cut short, so that the claims may fit all the same.
        for_good: whether a request cannot be satisfied whatever is in use, so that waiting does not help.
        claims: keys of the claims that are named; the reasons also hold for other claims with equal specs.
        clause: the message of kube-scheduler that refused the pod there; "" if there is none.
        version: versions of the node and of the pod's ``PodCheck`` then; None if the reasons hold for this pod alone.
        asked: False if the node was not looked at.
    """

    predicates: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    together: tuple[Exclusion, ...] = ()
    pools: tuple[str, ...] = ()
    undecided: bool = False
    for_good: bool = False
    claims: tuple[str, ...] = ()
    clause: str = ""
    version: Hashable = None
    asked: bool = True

    @property
    def of_devices(self) -> bool:
        """Whether devices are why. False if the node refuses the pod for other reasons, whatever its devices."""
        return not self.predicates or bool(self.shortages or self.together or self.pools or self.undecided)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every reason as one sentence, the most specific first."""
        return (*self.predicates, *_sentences(self))

    def in_general(self) -> "NodeReasons":
        """The same without what is of this node and pod alone, such as holders: equal for nodes that are alike."""
        shortages = self.shortages
        if any(one.holders or one.freeing for one in shortages):
            shortages = tuple(replace(one, holders=(), more_holders=0, freeing=()) for one in shortages)
        return replace(self, shortages=shortages, claims=(), clause="", version=None, asked=True)

    def devices_to_json(self) -> Json:
        """JSON with the keys faults (claim, field, message), requests, together, pools and undecided."""
        return {
            "faults": faults_to_json(self.faults),
            "requests": [one.to_json() for one in self.shortages],
            "together": [one.to_json() for one in self.together],
            "pools": list(self.pools),
            "undecided": self.undecided,
        }


def faults_to_json(faults: Iterable[Fault]) -> list[Json]:
    """JSON of the faults of claims, each with the keys claim, field and message."""
    return [{"claim": fault.key, "field": fault.field, "message": fault.message} for fault in faults]


def _sentences(reasons: NodeReasons) -> Iterator[str]:
    yield from map(str, reasons.faults)
    yield from map(_shortage, reasons.shortages)
    if reasons.together:
        yield "every request fits alone, but not together: " + _excluded(reasons.together)
    if reasons.undecided:
        yield "the search was cut short before all combinations were tried, so the claims may fit all the same"
    for pool in reasons.pools:
        yield f"pool {pool}"


def _shortage(shortage: Shortage) -> str:
    how = " (as shares of cards, because it asks for capacity)" if shortage.as_share else ""
    head = (
        f"claim {shortage.claim}, request {shortage.request}: wants {shortage.wanted} of {shortage.device_class}{how}, "
    )
    text = head + f"{shortage.available} of {shortage.seen} devices fit"
    if shortage.exclusions:
        text += f" ({_excluded(shortage.exclusions)})"
    if isinstance(shortage.wanted, int) and shortage.at_most and shortage.for_good:
        text += f"; even if nothing was in use, at most {shortage.at_most} would fit"
    if shortage.holders:
        more = f" and {shortage.more_holders} more" if shortage.more_holders else ""
        text += f"; in use by {', '.join(shortage.holders)}{more}"
    if shortage.freeing:
        text += f"; freeing {', '.join(shortage.freeing)} would do"
    return text


def _excluded(excluded: Sequence[Exclusion]) -> str:
    return ", ".join(f"{exclusion.count} {exclusion.cause}" for exclusion in excluded)
