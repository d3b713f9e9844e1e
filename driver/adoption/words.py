"""Names of templates that people write, such as ``lode.2-h100-80gi``: each part between hyphens is a word. Pure."""

import re
from collections.abc import Sequence

from driver.adoption import migs
from driver.adoption.naming import WORDS
from driver.adoption.rules import MOST_DEVICES
from driver.adoption.spelling import (
    CORES,
    COUNT,
    GPU_TYPES,
    KINDS,
    MATCHING,
    MEMORY,
    NPU_MODELS,
    NPUS,
    POLICIES,
    PROFILES,
    SHARING,
    misspelt,
    profile_of,
    whole_name,
)
from driver.adoption.wanted import Json, Wanted, spec_of
from driver.errors import Fault
from driver.names import NUMA_NODE, PCIE_ROOT, Names


class _Parts:
    """The words of a name, taken out one group after the other."""

    def __init__(self, name: str, faults: list[Fault]):
        self._left = name.removeprefix(WORDS).split("-")
        self._faults = faults
        for text in misspelt(name):
            self.fault(text)

    def fault(self, text: str) -> None:
        self._faults.append(Fault("metadata.name", text))

    def one(self, allowed: tuple[str, ...] | str) -> str:
        """The word of a group; "" without one. Two are a fault."""
        found = [
            word
            for word in self._left
            if (re.fullmatch(allowed, word) if isinstance(allowed, str) else word in allowed)
        ]
        self._left = [word for word in self._left if word not in found]
        if len(found) > 1:
            self.fault(f"{' and '.join(found)}: write one of them")
        return found[0] if found else ""

    def profile(self, kind: str) -> str:
        """The words of a MIG profile or vNPU template, joined; "" without one, or if the kind is another one."""
        found = profile_of(kind, self._left) if kind in self._left else []
        if found:
            at = next(at for at in range(len(self._left)) if self._left[at : at + len(found)] == found)
            del self._left[at : at + len(found)]
        return "-".join(found)


def worded(name: str, names: Names, faults: list[Fault]) -> Json:
    """Return the ``spec`` of the template of a name of words, and add what is wrong with it to ``faults``."""
    parts = _Parts(name, faults)
    words = name.removeprefix(WORDS).split("-")
    profiles = {kind: parts.profile(kind) for kind in PROFILES}
    kind, count = parts.one(KINDS), int(parts.one(COUNT) or 1)
    card = parts.one((*GPU_TYPES, *NPUS))
    memory, cores = parts.one(MEMORY), parts.one(CORES)
    policy, sharing = parts.one(POLICIES), parts.one(tuple(SHARING))
    matching = [word for word in MATCHING if parts.one((word,))]
    if count > MOST_DEVICES:
        parts.fault(f"a claim has at most {MOST_DEVICES} devices")
    npu = card in NPUS or kind in ("npu", "vnpu")
    if (kind in ("gpu", "mig") and npu) or (kind in ("npu", "vnpu") and card in GPU_TYPES):
        better = whole_name(kind, words, profiles[kind].split("-")) if kind in PROFILES else _without(words, kind)
        parts.fault(f"{kind} and {card} are of different vendors: write {better}")
    if cores and kind != "share":
        parts.fault(f"{cores}: only a share has a part of the cores: write {_as_share(words, kind, cores)}")
    if sharing and (kind != "share" or npu):
        parts.fault(
            f"{sharing}: only shares of GPUs are shared by it: write {_as_share(words, kind, sharing, npu=npu)}"
        )
    if not (kind or card):
        parts.fault(f"say what it is: one of {', '.join(KINDS)} or a type such as h100")
    kind = f"{'npu' if npu else 'gpu'}-share" if kind == "share" else kind or ("npu" if npu else "gpu")
    selectors = [*_card(card), *_profile(kind, profiles.get(kind, ""))]
    capacity = {"memory": _amount(memory, exact=kind.endswith("-share"))} if memory else {}
    capacity |= {"cores": cores.removesuffix("c")} if cores else {}
    placement = {"policy": policy} if policy else {}
    attributes = {"numa": NUMA_NODE, "pcie": PCIE_ROOT, "nvlink": names.attribute("nvlinkDomain")}
    one = Wanted(kind, kind, count, selectors, capacity, sharing=SHARING.get(sharing, ""), placement=placement)
    return spec_of([one], names, [attributes[word] for word in matching])


def _card(card: str) -> list[str]:
    if not card:
        return []
    if card in NPU_MODELS:
        return [f'{{}}.model.lowerAscii().endsWith("{card}")']
    return [f'{{}}.type.lowerAscii() == "{card}"']


def _profile(kind: str, profile: str) -> list[str]:
    if not profile:
        return []
    name = migs.profile_of_words(profile) if kind == "mig" else profile.replace("-", "_")
    return [f'{{}}.profile == "{name}"']


def _as_share(words: Sequence[str], kind: str, word: str, *, npu: bool = False) -> str:
    """The name as one of a share, or without the word where it cannot be one."""
    if npu or kind in PROFILES:
        return _without(words, word)
    return WORDS + "-".join(["share", *(it for it in words if it not in KINDS)])


def _without(words: Sequence[str], word: str) -> str:
    return WORDS + "-".join(it for it in words if it != word)


def _amount(word: str, *, exact: bool) -> str:
    """A quantity of memory.

    A whole card is known by its nominal size, and has a little less: the driver of an H100 with "80 GB" reports
    79.6 GiB. So whole cards have at least that many thousands of millions of bytes.
    """
    number, unit = word[:-2], word[-2:]
    if exact:
        return number + {"mi": "Mi", "gi": "Gi", "gb": "G"}[unit]
    return number + {"mi": "M", "gi": "G", "gb": "G"}[unit]
