"""A snapshot as Prometheus reads it: the names of all series, and their lines. Pure.

The text is written here, not by a library: a fleet has hundreds of thousands of lines.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal

from controller.allocation import CARD
from controller.census.counting import PAUSE_EVERY, Census, CountedCard, Group
from controller.census.snapshot import HeldDevice
from driver.device_facts import card_of
from driver.metric_labels import label, labels


class Detail(IntEnum):
    """How much of the fleet is served; each level has what those before it have."""

    NONE = 0
    TOTALS = 1
    CARDS = 2
    CLAIMS = 3


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name.

    Attributes:
        detail: the level from which on it is served.
    """

    help: str
    detail: Detail
    type: Literal["gauge", "counter"] = "gauge"


FAMILIES: Final[Mapping[str, Family]] = {
    "lode_fleet_cards": Family("Cards by type, IB cluster and state.", Detail.TOTALS),
    "lode_free_cards": Family("Cards of which nothing is held and that can be allocated.", Detail.TOTALS),
    "lode_largest_free_group_cards": Family("The most free cards of one node.", Detail.TOTALS),
    "lode_largest_node_cards": Family("The most cards of one node, free or not.", Detail.TOTALS),
    "lode_fleet_memory_bytes": Family("Memory of all cards.", Detail.TOTALS),
    "lode_namespace_memory_allocated_bytes": Family("Memory that the namespace's claims hold.", Detail.TOTALS),
    "lode_namespace_allocated_cards": Family(
        "Cards that the namespace's claims hold; a part counts the larger one of its parts of memory and cores.",
        Detail.TOTALS,
    ),
    "lode_namespace_card_seconds_total": Family(
        "Time for which the namespace has held cards, with parts as in lode_namespace_allocated_cards.",
        Detail.TOTALS,
        "counter",
    ),
    "lode_waiting_pods": Family("Pods that cannot be placed at present, by reason.", Detail.TOTALS),
    "lode_oldest_waiting_pod_seconds": Family("How long the pod has waited that waits longest.", Detail.TOTALS),
    "lode_unreserved_claims": Family("Claims that hold devices and that no pod uses.", Detail.TOTALS),
    "lode_card_info": Family("1 for each card.", Detail.CARDS),
    "lode_card_memory_bytes": Family("Memory of the card.", Detail.CARDS),
    "lode_card_memory_allocated_bytes": Family("Memory of the card that claims hold.", Detail.CARDS),
    "lode_card_cores_allocated_ratio": Family("Compute of the card that claims hold, of 1.", Detail.CARDS),
    "lode_card_tenants": Family("Claims that hold the card or a part of it.", Detail.CARDS),
    "lode_card_state": Family("1 for the state of the card.", Detail.CARDS),
    "lode_gang_members": Family("Members of the gang, with a place or without.", Detail.CLAIMS),
    "lode_allocation_info": Family(
        "1 for each device of a claim and pod that the claim is reserved for.", Detail.CLAIMS
    ),
    "lode_allocation_memory_bytes": Family("Memory that the claim holds of the device.", Detail.CLAIMS),
    "lode_allocation_cores_ratio": Family("Compute that the claim holds of the card, of 1.", Detail.CLAIMS),
}
"""Each name has its unit at the end: bytes, seconds, a ratio of 1, or what is counted."""


Lines = Mapping[str, list[str]]
"""The lines of each family."""


def exposition(detail: Detail, census: Census, pause: Callable[[], None] = lambda: None) -> str:
    """Return all series of a census up to a level of detail; ``pause`` as of ``count``."""
    if detail is Detail.NONE:
        return ""
    lines: Lines = {name: [] for name, family in FAMILIES.items() if family.detail <= detail}
    _write_fleet(lines, census)
    _write_namespaces(lines, census)
    if detail >= Detail.CARDS:
        _write_cards(lines, census.cards.values(), pause)
    if detail >= Detail.CLAIMS:
        _write_gangs(lines, census)
        _write_claims(lines, census, pause)
    return "".join(text for name, found in lines.items() for text in _family(name, found))


def _family(name: str, lines: list[str]) -> Iterator[str]:
    if lines:
        family = FAMILIES[name]
        yield f"# HELP {name} {family.help}\n# TYPE {name} {family.type}\n"
        yield "".join(lines)


def _write(lines: Lines, name: str, named: str, value: float) -> None:
    lines[name].append(f"{name}{{{named}}} {value!r}\n")


def _write_fleet(lines: Lines, census: Census) -> None:
    free: Counter[Group] = Counter()
    for (group, state), number in sorted(census.states.items()):
        free[group] += number * (state == "free")
        _write(lines, "lode_fleet_cards", f"{_group(group)},state={label(state)}", number)
    memory: Counter[Group] = Counter()
    for counted in census.cards.values():
        memory[counted.card.type, counted.card.ib_cluster] += counted.card.memory
    for name, values in (
        ("lode_free_cards", free),
        ("lode_largest_free_group_cards", census.largest_free),
        ("lode_largest_node_cards", census.largest),
        ("lode_fleet_memory_bytes", memory),
    ):
        for group, value in sorted(values.items()):
            _write(lines, name, _group(group), value)


def _group(group: Group) -> str:
    return labels(type=group[0], ib_cluster=group[1])


def _write_namespaces(lines: Lines, census: Census) -> None:
    for (namespace, kind_of), memory in sorted(census.held_memory.items()):
        named = labels(namespace=namespace, type=kind_of)
        _write(lines, "lode_namespace_memory_allocated_bytes", named, memory)
    for (namespace, kind_of, kind), parts in sorted(census.held_parts.items()):
        named = labels(namespace=namespace, type=kind_of, kind=kind)
        _write(lines, "lode_namespace_allocated_cards", named, parts / CARD)
    for use, seconds in sorted(census.snapshot.card_seconds.items()):
        named = labels(namespace=use.namespace, type=use.type, kind=use.kind)
        _write(lines, "lode_namespace_card_seconds_total", named, seconds)
    for (namespace, reason), pods in sorted(census.waiting.items()):
        _write(lines, "lode_waiting_pods", labels(namespace=namespace, reason=reason), pods)
    for namespace, seconds in sorted(census.oldest.items()):
        _write(lines, "lode_oldest_waiting_pod_seconds", labels(namespace=namespace), seconds)
    for namespace, claims in sorted(census.unreserved.items()):
        _write(lines, "lode_unreserved_claims", labels(namespace=namespace), claims)


def _write_gangs(lines: Lines, census: Census) -> None:
    for (gang, placed), members in sorted(census.members.items()):
        namespace, _, name = gang.partition("/")
        state = "placed" if placed else "waiting"
        _write(lines, "lode_gang_members", labels(namespace=namespace, gang=name, state=state), members)


def _write_cards(lines: Lines, cards: Iterable[CountedCard], pause: Callable[[], None]) -> None:
    info, memory = lines["lode_card_info"], lines["lode_card_memory_bytes"]
    held, cores = lines["lode_card_memory_allocated_bytes"], lines["lode_card_cores_allocated_ratio"]
    tenants, state = lines["lode_card_tenants"], lines["lode_card_state"]
    for number, counted in enumerate(cards):
        card = counted.card
        named = card.labels
        info.append(f"lode_card_info{{{named},{card.facts}}} 1\n")
        memory.append(f"lode_card_memory_bytes{{{named}}} {card.memory}\n")
        held.append(f"lode_card_memory_allocated_bytes{{{named}}} {counted.memory}\n")
        cores.append(f"lode_card_cores_allocated_ratio{{{named}}} {counted.cores:.4g}\n")
        tenants.append(f"lode_card_tenants{{{named}}} {counted.tenants}\n")
        state.append(f'lode_card_state{{{named},state="{counted.state}"}} 1\n')
        if number % PAUSE_EVERY == 0:
            pause()


def _write_claims(lines: Lines, census: Census, pause: Callable[[], None]) -> None:
    info = lines["lode_allocation_info"]
    memory, cores = lines["lode_allocation_memory_bytes"], lines["lode_allocation_cores_ratio"]
    for number, holding in enumerate(census.snapshot.holdings.values()):
        whose, claim = f"namespace={label(holding.namespace)},", f"claim={label(holding.claim)},"
        for held in _each_once(holding.devices):
            card = card_of(held.device)
            counted = census.cards.get((held.pool, card))
            node, uuid = (counted.card.node, counted.card.uuid) if counted else (holding.node, "")
            device = f"{claim}request={label(held.request)},node={label(node)},device={label(held.device)}"
            where = f"{device},card={label(card)},uuid={label(uuid)},kind={label(held.kind)}"
            for pod in holding.pods or ("",):
                info.append(f"lode_allocation_info{{{whose}pod={label(pod)},{where}}} 1\n")
            memory.append(f"lode_allocation_memory_bytes{{{whose}{device}}} {held.memory}\n")
            cores.append(f"lode_allocation_cores_ratio{{{whose}{device}}} {held.cores:.4g}\n")
        if number % PAUSE_EVERY == 0:
            pause()


def _each_once(devices: Sequence[HeldDevice]) -> Iterable[HeldDevice]:
    """The devices, with the sum of what is held of one that a request has more than once, as several shares."""
    found: dict[tuple[str, str, str], HeldDevice] = {}
    for held in devices:
        key = (held.request, held.pool, held.device)
        if (before := found.get(key)) is not None:
            held = replace(held, memory=before.memory + held.memory, cores=before.cores + held.cores)
        found[key] = held
    return found.values()
