"""The fleet under the names of other systems, for boards that were made for them. Pure.

The units are theirs: Volcano counts MiB and percent of a card, HAMi bytes, percent of a card's compute, and a ratio of
its memory. What only a program on the node measures is not here; docs/metrics.md lists it with the reason.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from controller.census.counting import PAUSE_EVERY, Census, CountedCard
from controller.quotas import QuotaUse
from driver.device_facts import card_of
from driver.metric_labels import label, labels
from driver.quantity import NANO

MIB: Final = 2**20
_MOST: Final = 2**63 * NANO
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

Sample = tuple[str, str, float]
"""Name, labels and value."""


class PodPart(NamedTuple):
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


def _add(lines: Mapping[str, list[str]], samples: Iterator[Sample]) -> None:
    for name, named, value in samples:
        lines[name].append(f"{name}{{{named}}} {value:.12g}\n")


def _pods(census: Census) -> Iterator[PodPart]:
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
            yield PodPart(namespace, pod, card, memory, cores)


def _volcano_card(counted: CountedCard) -> Iterator[Sample]:
    card = counted.card
    named = labels(NodeName=card.node, devID=card.uuid)
    yield "volcano_vgpu_device_memory_limit", named, card.memory / MIB
    yield "volcano_vgpu_device_allocated_memory", named, counted.memory / MIB
    yield "volcano_vgpu_device_allocated_cores", named, _percent(counted.cores)
    yield "volcano_vgpu_device_shared_number", named, counted.tenants


def _volcano_pod(part: PodPart) -> Iterator[Sample]:
    card = part.card.card
    named = labels(NodeName=card.node, devID=card.uuid, podName=part.pod, namespace=part.namespace)
    yield "volcano_vgpu_device_memory_allocation_for_a_certain_pod", named, part.memory / MIB
    yield "volcano_vgpu_device_core_allocation_for_a_certain_pod", named, _percent(part.cores)


def _hami_card(counted: CountedCard) -> Iterator[Sample]:
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
    limit = label(str(card.memory // MIB))
    yield "hami_node_gpu_overview", f"{named},device_cores={cores},device_memory_limit={limit}", counted.memory


def _hami_pod(part: PodPart) -> Iterator[Sample]:
    card = part.card.card
    named = labels(namespace=part.namespace, node=card.node, pod=part.pod, device_uuid=card.uuid)
    yield "hami_vgpu_memory_allocated_bytes", named, part.memory
    yield "hami_vgpu_memory_limit_bytes", named, part.memory
    yield "hami_vgpu_core_allocated_ratio", named, _percent(part.cores)


def _hami_quotas(uses: Iterable[QuotaUse]) -> Iterator[Sample]:
    """HAMi knows one limit of a name in a namespace. Of several, the lowest one stops a pod first."""
    lowest: dict[tuple[str, str], QuotaUse] = {}
    for use in uses:
        key = (use.quota.partition("/")[0], use.name)
        lowest[key] = min(use, lowest.get(key, use), key=lambda one: one.limit)
    for (namespace, name), use in sorted(lowest.items()):
        unit = NANO * (MIB if name.rpartition("/")[2].partition(".")[0] == "memory" else 1)
        named, limit = labels(namespace=namespace, quota_name=name), min(use.limit, _MOST) / unit
        yield "hami_resource_quota_limit", named, limit
        yield "hami_resource_quota_used", f"{named},limit={label(f'{limit:.12g}')}", min(use.used, _MOST) / unit


def _percent(part: float) -> float:
    return round(100 * part, 4)
