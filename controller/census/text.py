"""A census as Prometheus reads it: the names of all series, ours and those of other systems, and their lines. Pure.

The text is written here, not by a library: a fleet has hundreds of thousands of lines.

The names of other systems are for boards that were made for these, and the units are theirs: Volcano counts MiB and
percent of a card, HAMi bytes, percent of a card's compute, and a ratio of its memory. What only a program on the node
measures is not here; docs/metrics.md lists it with the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal, NamedTuple

from controller.allocation import CARD
from controller.census.counting import PAUSE_EVERY, Census, CountedCard, Group
from controller.census.snapshot import HeldDevice
from controller.quotas import QuotaUse
from driver.device_facts import card_of
from driver.metric_labels import label, labels
from driver.quantity import NANO


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


# Under the names of other systems

_MIB: Final = 2**20
_MOST_STORED: Final = 2**63 * NANO
"""The most that the API stores of a quantity. More has no place in a number of Prometheus."""
PEERS: Final[Mapping[str, Mapping[str, str]]] = {
    "volcano": {
        "volcano_vgpu_device_memory_limit": "Memory of the card in MiB.",
        "volcano_vgpu_device_allocated_memory": "Memory of the card that claims hold, in MiB.",
        "volcano_vgpu_device_allocated_cores": "Compute of the card that claims hold, in percent.",
        "volcano_vgpu_device_shared_number": "Claims that hold the card or a part of it.",
        "volcano_vgpu_device_memory_allocation_for_a_certain_pod": "Memory of the card that the pod has, in MiB.",
        "volcano_vgpu_device_core_allocation_for_a_certain_pod": "Compute of the card that the pod has, in percent.",
    },
    "hami": {
        "hami_gpu_memory_limit_bytes": "Memory of the card.",
        "hami_gpu_memory_allocated_bytes": "Memory of the card that claims hold.",
        "hami_gpu_core_limit_ratio": "Compute of the card in percent, which is 100.",
        "hami_gpu_core_allocated_ratio": "Compute of the card that claims hold, in percent.",
        "hami_gpu_shared_count": "Claims that hold the card or a part of it.",
        "hami_node_gpu_memory_allocated_ratio": "Memory of the card that claims hold, of 1.",
        "hami_node_gpu_overview": "Memory of the card that claims hold, with what the card has as labels.",
        "hami_vgpu_memory_allocated_bytes": "Memory of the card that the pod has.",
        "hami_vgpu_memory_limit_bytes": "Memory of the card that the pod has, whether anybody enforces it or not.",
        "hami_vgpu_core_allocated_ratio": "Compute of the card that the pod has, in percent.",
        "hami_resource_quota_limit": "The lowest limit of the namespace, in MiB or percent of a card's compute.",
        "hami_resource_quota_used": "What the namespace's claims take of it.",
    },
}
"""The names of each system, and what each means here."""

_Sample = tuple[str, str, float]
"""Name, labels and value."""


class _PodPart(NamedTuple):
    """What a pod has of a card, by all its claims."""

    namespace: str
    pod: str
    card: CountedCard
    memory: int
    cores: float


def peer_exposition(peer: str, census: Census, pause: Callable[[], None] = lambda: None) -> str:
    """Return what was counted under the names of a system; ``pause`` as of ``count``."""
    lines: dict[str, list[str]] = {name: [] for name in PEERS[peer]}
    of_card, of_pod = (_volcano_card, _volcano_pod) if peer == "volcano" else (_hami_card, _hami_pod)
    for number, counted in enumerate(census.cards.values()):
        _add(lines, of_card(counted))
        if number % PAUSE_EVERY == 0:
            pause()
    for number, part in enumerate(_pods(census)):
        _add(lines, of_pod(part))
        if number % PAUSE_EVERY == 0:
            pause()
    if peer == "hami":
        _add(lines, _hami_quotas(census.snapshot.quotas))
    return "".join(
        f"# HELP {name} {PEERS[peer][name]}\n# TYPE {name} gauge\n{''.join(found)}"
        for name, found in lines.items()
        if found
    )


def _add(lines: Mapping[str, list[str]], samples: Iterator[_Sample]) -> None:
    for name, named, value in samples:
        lines[name].append(f"{name}{{{named}}} {value:.12g}\n")


def _pods(census: Census) -> Iterator[_PodPart]:
    """What each pod has of each card that is published."""
    found: dict[tuple[str, str, str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for holding in census.snapshot.holdings.values():
        for held in holding.devices:
            for pod in holding.pods:
                key = (holding.namespace, pod, held.pool, card_of(held.device))
                memory, cores = found[key]
                found[key] = memory + held.memory, cores + held.cores
    for (namespace, pod, pool, name), (memory, cores) in found.items():
        if (card := census.cards.get((pool, name))) is not None:
            yield _PodPart(namespace, pod, card, memory, cores)


def _volcano_card(counted: CountedCard) -> Iterator[_Sample]:
    card = counted.card
    named = labels(NodeName=card.node, devID=card.uuid)
    yield "volcano_vgpu_device_memory_limit", named, card.memory / _MIB
    yield "volcano_vgpu_device_allocated_memory", named, counted.memory / _MIB
    yield "volcano_vgpu_device_allocated_cores", named, _percent(counted.cores)
    yield "volcano_vgpu_device_shared_number", named, counted.tenants


def _volcano_pod(part: _PodPart) -> Iterator[_Sample]:
    card = part.card.card
    named = labels(NodeName=card.node, devID=card.uuid, podName=part.pod, namespace=part.namespace)
    yield "volcano_vgpu_device_memory_allocation_for_a_certain_pod", named, part.memory / _MIB
    yield "volcano_vgpu_device_core_allocation_for_a_certain_pod", named, _percent(part.cores)


def _hami_card(counted: CountedCard) -> Iterator[_Sample]:
    card, cores = counted.card, label(f"{_percent(counted.cores):g}")
    card_labels = labels(node=card.node, device_uuid=card.uuid, device_index=str(card.index))
    named = f"{card_labels},device_type={label(card.type)}"
    yield "hami_gpu_memory_limit_bytes", named, card.memory
    yield "hami_gpu_memory_allocated_bytes", f"{named},device_cores={cores}", counted.memory
    yield "hami_gpu_core_limit_ratio", named, 100
    yield "hami_gpu_core_allocated_ratio", named, _percent(counted.cores)
    yield "hami_gpu_shared_count", named, counted.tenants
    if card.memory:
        yield "hami_node_gpu_memory_allocated_ratio", card_labels, counted.memory / card.memory
    limit = label(str(card.memory // _MIB))
    yield "hami_node_gpu_overview", f"{named},device_cores={cores},device_memory_limit={limit}", counted.memory


def _hami_pod(part: _PodPart) -> Iterator[_Sample]:
    card = part.card.card
    named = labels(namespace=part.namespace, node=card.node, pod=part.pod, device_uuid=card.uuid)
    yield "hami_vgpu_memory_allocated_bytes", named, part.memory
    yield "hami_vgpu_memory_limit_bytes", named, part.memory
    yield "hami_vgpu_core_allocated_ratio", named, _percent(part.cores)


def _hami_quotas(uses: Iterable[QuotaUse]) -> Iterator[_Sample]:
    """HAMi knows one limit of a name in a namespace. Of several, the lowest one stops a pod first."""
    lowest: dict[tuple[str, str], QuotaUse] = {}
    for use in uses:
        key = (use.quota.partition("/")[0], use.name)
        lowest[key] = min(use, lowest.get(key, use), key=lambda one: one.limit)
    for (namespace, name), use in sorted(lowest.items()):
        unit = NANO * (_MIB if name.rpartition("/")[2].partition(".")[0] == "memory" else 1)
        named, limit = labels(namespace=namespace, quota_name=name), min(use.limit, _MOST_STORED) / unit
        yield "hami_resource_quota_limit", named, limit
        yield "hami_resource_quota_used", f"{named},limit={label(f'{limit:.12g}')}", min(use.used, _MOST_STORED) / unit


def _percent(part: float) -> float:
    return round(100 * part, 4)
