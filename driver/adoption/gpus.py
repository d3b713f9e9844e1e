"""Requests for GPUs of NVIDIA's device plugin, of HAMi and of Volcano, as claims. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from driver.adoption import migs
from driver.adoption.naming import AdoptedName
from driver.adoption.sources import HAMI, VOLCANO
from driver.adoption.wanted import LOCALITY, Json, Wanted, listed, spec_of, trimmed
from driver.errors import Fault
from driver.names import NUMA_NODE, Names

_CARD_TYPE: Final = '("nvidia-" + {}.model.lowerAscii())'
"""The type of a card as HAMi and Volcano compare it, in lower case: ``NVIDIA-`` and the product's name."""
_PLACEMENTS: Final[Mapping[str, Mapping[str, object]]] = {
    "binpack": {"policy": "binpack"},
    "spread": {"policy": "spread"},
    "numa": LOCALITY,
    "topology-aware": LOCALITY,
}


def gpus(request: AdoptedName, names: Names, faults: list[Fault]) -> Json:
    """Return the ``spec`` of the template for a request for GPUs, and add what is wrong with it to ``faults``."""
    selectors = _selectors(request, faults)
    placement = _placement(request.words)
    wanted = [
        Wanted(f"mig-{migs.in_words(profile)}", "mig", count, (*selectors, f'{{}}.profile == "{profile}"'))
        for token, count in request.amounts.items()
        if (profile := migs.profile_of_token(token)) and count
    ]
    amounts = {token: amount for token, amount in request.amounts.items() if not migs.profile_of_token(token)}
    if amounts:
        wanted += _cards(request, amounts, selectors, placement, faults)
    if not wanted:
        faults.append(Fault("metadata.name", "it asks for no device; remove the claim"))
    numa = request.words.get("b", "") in ("true", "t", "1")
    return spec_of(wanted, names, [NUMA_NODE] if numa else [])


def _placement(words: Mapping[str, str]) -> Mapping[str, object]:
    """A policy of HAMi is either of nodes or of cards. Where one of them is said, the other one is not the same."""
    cards, nodes = _PLACEMENTS.get(words.get("sg", ""), {}), words.get("sn", "")
    if not cards and not nodes:
        return {}
    return {**cards, "nodePolicy": nodes or "firstFit"}


def _cards(
    request: AdoptedName,
    amounts: Mapping[str, int],
    selectors: Sequence[str],
    placement: Mapping[str, object],
    faults: list[Fault],
) -> list[Wanted]:
    if whole := amounts.get("w"):
        return [Wanted("gpu", "gpu", whole, selectors, placement=placement)]
    if summed := amounts.get("s"):
        return [Wanted("gpu", "gpu-share", 1, selectors, {"memory": f"{summed}Mi"}, placement=placement)]
    count, memory, percent = amounts.get("n", 1), amounts.get("m", 0), amounts.get("p", 0)
    cores = min(amounts.get("c", 0), 100)
    if not count or not any(amounts.values()):
        return []
    if request.source == VOLCANO.name and percent:
        memory = 0  # Volcano looks at the memory only without a percentage; HAMi does it the other way round
    if memory:
        percent = 0
    if request.words.get("v") == "mig":
        if not memory:
            faults.append(Fault("metadata.name", "mode mig needs an amount of memory in MiB: say how much"))
        return [Wanted("gpu", "mig", count, selectors, {"memory": f"{memory}Mi"}, placement={"policy": "binpack"})]
    alone = request.source != HAMI.name or (not cores and percent in (0, 100))
    if cores == 100 or (alone and not cores and not memory and percent in (0, 100)):
        # Nobody else gets a part of such a card: of the memory or of the cores, all is taken.
        least = (f'{{capacity}}.memory.compareTo(quantity("{memory}Mi")) >= 0',) if memory else ()
        return [Wanted("gpu", "gpu", count, (*selectors, *least), placement=placement)]
    capacity = {"memory": f"{memory}Mi"} if memory else {}
    capacity |= {"cores": str(cores)} if cores else {}
    if 0 < percent < 100:
        placement = {**placement, "memoryPercent": percent}
    sharing = "mps" if request.words.get("v") == "mps" else "hamiCore"
    return [Wanted("gpu", "gpu-share", count, selectors, capacity, sharing=sharing, placement=placement)]


def _selectors(request: AdoptedName, faults: list[Fault]) -> tuple[str, ...]:
    words, volcano = request.words, request.source == VOLCANO.name
    found = []
    if "t" in words:
        types = words["t"].split(",") if volcano else trimmed(words["t"])
        if types and "" not in types:
            found.append(f"{listed(types)}.exists(it, {_CARD_TYPE}.contains(it))")
    if "nt" in words and not (volcano and "t" in words):
        types = words["nt"].split(",") if volcano else trimmed(words["nt"])
        if "" in types:
            faults.append(Fault("metadata.name", "an empty entry of nouse-gputype excludes every card: remove it"))
        elif types:
            found.append(f"!{listed(types)}.exists(it, {_CARD_TYPE}.contains(it))")
    if uuids := trimmed(words.get("u", "")):
        found.append(f"{{}}.uuid.lowerAscii() in {listed(uuids)}")
    if uuids := trimmed(words.get("nu", "")):
        found.append(f"!({{}}.uuid.lowerAscii() in {listed(uuids)})")
    if "i" in words:
        indexes = trimmed(words["i"])
        if not indexes or not all(it.isascii() and it.isdigit() and len(it) < 6 for it in indexes):
            faults.append(Fault("metadata.name", "gpu-index must be a list of numbers, such as 0,2"))
        else:
            found.append(f"{{}}.index in [{', '.join(str(int(it)) for it in indexes)}]")
    return tuple(found)
