"""Requests for NPUs of HAMi's and Huawei's device plugins, as claims. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from driver.adoption.chips import CHIPS, CORES, STATIC_VNPUS, AscendResource
from driver.adoption.naming import AdoptedName
from driver.adoption.wanted import LOCALITY, Json, Wanted, listed, spec_of, trimmed
from driver.errors import Fault
from driver.names import Names

_310P: Final = '{}.type == "310P"'
_CARD_CORES: Final = 8
"""AI cores of an Ascend 310P."""


def npus(request: AdoptedName, names: Names, faults: list[Fault]) -> Json:
    """Return the ``spec`` of the template for a request for NPUs, and add what is wrong with it to ``faults``."""
    wanted = [one for chip in CHIPS for one in _of_chip(chip, request, faults)]
    for vnpu in STATIC_VNPUS:
        if count := request.amounts.get(vnpu.token, 0):
            family = _310P if vnpu.family == "310p" else '{}.type.startsWith("910")'
            wanted.append(Wanted(vnpu.token, "vnpu", count, (family, _template(vnpu.template))))
    if cores := request.amounts.get("k", 0):
        wanted += _of_cores(cores, request, faults)
    if not wanted:
        faults.append(Fault("metadata.name", "it asks for no device; remove the claim"))
    return spec_of(wanted, names)


def _template(*names: str) -> str:
    return f'{{}}.profile == "{names[0]}"' if len(names) == 1 else f"{{}}.profile in {listed(names)}"


def _of_chip(chip: AscendResource, request: AdoptedName, faults: list[Fault]) -> list[Wanted]:
    memory, cores = (request.amounts.get(f"{chip.token}{letter}", 0) for letter in "mc")
    count = request.amounts.get(f"{chip.token}n", 1 if memory or cores else 0)
    if not count:
        return []
    selects = (
        chip.selects.replace("type", "{}.type").replace("model", "{}.model.lowerAscii()"),
        *_uuids(chip, request),
    )
    whole = Wanted("npu", "npu", count, selects, placement=LOCALITY if count > 1 else {})
    if memory > chip.capacity_mib:
        faults.append(Fault("metadata.name", f"a card has {chip.capacity_mib} MiB: ask for less memory than {memory}"))
    if request.words.get("v") == "hami-core":
        capacity = {"memory": f"{memory}Mi"} if memory else {}
        capacity |= {"cores": str(min(cores, 100))} if cores else {}
        return [Wanted("npu", "npu-share", count, selects, capacity) if capacity else whole]
    if count > 1 and 0 < memory < chip.allocatable_mib:
        remedy = f"several cards are given whole: remove the memory, or ask for at least {chip.allocatable_mib} MiB"
        faults.append(Fault("metadata.name", remedy))
    fitting = [templates for size, templates in chip.templates.items() if size >= memory]
    if count > 1 and chip.dies > 1:
        return [_modules(whole, chip)]
    if count > 1 or not memory or not fitting:
        return [whole]
    return [Wanted("npu", "vnpu", 1, (*selects, _template(*fitting[0])))]


def _modules(whole: Wanted, chip: AscendResource) -> Wanted:
    """Chips of modules: where a card is a module, as many as have these chips; where it is a chip, all of them."""
    least = f'quantity("{chip.capacity_mib * 3 // 2}Mi")'
    return replace(
        whole,
        alternatives={
            "modules": f"{{capacity}}.memory.compareTo({least}) >= 0",
            "chips": f"{{capacity}}.memory.compareTo({least}) < 0",
        },
        counts={"modules": -(-whole.count // chip.dies)},
    )


def _uuids(chip: AscendResource, request: AdoptedName) -> Iterator[str]:
    """Conditions on the uuids of a chip: those that may be used, and those that may not, which count first."""
    for key, condition in (("u", "{{}}.uuid.lowerAscii() in {}"), ("nu", "!({{}}.uuid.lowerAscii() in {})")):
        if uuids := trimmed(request.words.get(f"{key}{chip.token[1:]}", "")):
            yield condition.format(listed(uuids))


def _of_cores(cores: int, request: AdoptedName, faults: list[Fault]) -> list[Wanted]:
    if cores % _CARD_CORES == 0:
        cards = cores // _CARD_CORES
        return [Wanted("npu", "npu", cards, (_310P,), placement=LOCALITY if cards > 1 else {})]
    level, dvpp = request.words.get("l", "low"), request.words.get("d", "null")
    templates = CORES.get((cores, level, dvpp), ())
    if not templates:
        remedy = (
            f"no template has {cores} cores with vnpu-level {level} and vnpu-dvpp {dvpp}: write 1, 2 or 4 cores, "
            f"vnpu-dvpp with 4 only, or a multiple of {_CARD_CORES} for whole cards"
        )
        faults.append(Fault("metadata.name", remedy))
    if len(templates) == 1:
        return [Wanted("npu", "vnpu", 1, (_310P, _template(templates[0])))]
    alternatives = {name.replace("_", "-"): _template(name) for name in templates}
    return [Wanted("npu", "vnpu", 1, (_310P,), alternatives=alternatives)]
