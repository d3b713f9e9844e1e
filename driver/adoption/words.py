"""Names of templates that people write, such as ``lode.2-h100-80gi``: each part between hyphens is a word. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from driver.adoption.naming import WORDS
from driver.adoption.rules import MOST_DEVICES
from driver.adoption.wanted import Json, Wanted, spec_of
from driver.errors import Fault
from driver.names import NUMA_NODE, PCIE_ROOT, Names

KINDS: Final = ("gpu", "npu", "share", "mig", "vnpu")
GPU_TYPES: Final = tuple(
    "p4 p100 v100 t4 a2 a10 a10g a16 a30 a40 a100 a800 l4 l20 l40 l40s h20 h100 h200 h800 gh200 b100 b200 b300 "
    "gb200 gb300".split()
)
NPU_TYPES: Final = ("310b", "310p", "910a", "910b", "910c")
NPU_MODELS: Final = ("910b1", "910b2", "910b3", "910b4")
POLICIES: Final = ("binpack", "spread")
MATCHING: Final = ("numa", "pcie", "nvlink")
"""Devices of a claim that have the NUMA node, the PCIe root or the NVLink (HCCS) domain in common."""
SHARING: Final[Mapping[str, str]] = {"timeslicing": "timeSlicing", "mps": "mps", "hamicore": "hamiCore"}

FIXED_WORDS: Final = (*KINDS, *GPU_TYPES, *NPU_TYPES, *NPU_MODELS, *POLICIES, *MATCHING, *SHARING)
COUNT: Final = "[1-9]|[12][0-9]|3[0-2]"
MEMORY: Final = "[1-9][0-9]{0,6}(mi|gi|gb)"
CORES: Final = "([1-9][0-9]?|100)c"
MIG_PARTS: Final = "[1-7]g|[1-9][0-9]{0,2}gb|me"
"""The parts of a MIG profile, which follow the word ``mig``: ``1g-10gb``, ``1g-10gb-me``."""
VNPU_PARTS: Final = "vir[0-9]{2}|[0-9]{1,2}[cg]|dvpp|ndvpp|nm|m"
"""The parts of a vNPU template, which follow the word ``vnpu``: ``vir02-1c``."""
NUMBERED_WORDS: Final[Mapping[str, str]] = {
    "2": COUNT,
    "80gi": MEMORY,
    "30c": CORES,
    "1g-10gb": MIG_PARTS,
    "vir02-1c": VNPU_PARTS,
}
"""Regular expressions of the words with numbers, by an example."""


def is_word(word: str) -> bool:
    """Return whether a word is known. Not all known words make sense together."""
    return word in FIXED_WORDS or any(re.fullmatch(pattern, word) for pattern in NUMBERED_WORDS.values())


NEAR_MISSES: Final[Mapping[str, str]] = {
    "": "write a word before and behind each hyphen",
    "[0-9]+": f"a number of devices is 1 to {MOST_DEVICES}",
    "[0-9.]+c": "cores are 1c to 100c",
    "[0-9.]+[kmgt](i|b|ib)?": "memory is written as 80gi, 40960mi or 80gb",
}
"""What to write for words that were meant as one with a number, by regular expression."""
CANDIDATES: Final = (*FIXED_WORDS, *NUMBERED_WORDS)
"""The words that one can be nearest to."""
MOST_COMPARED: Final = 16
"""Characters of a word that are compared."""


def advice(word: str) -> str:
    """Return what to write in the place of a word that is not known.

    The admission policy ``template-words`` says the same.
    """
    for pattern, remedy in NEAR_MISSES.items():
        if re.fullmatch(pattern, word):
            return remedy
    return f"the nearest is {nearest_word(word)!r}"


def nearest_word(word: str) -> str:
    """Return the known word that is most like another one; of equal ones, the first."""
    return max(CANDIDATES, key=lambda known: _likeness(known, word[:MOST_COMPARED]))


def _likeness(known: str, word: str) -> int:
    """How much of the word the known one has: pairs of letters count double, single letters and the first one once."""
    pairs = sum(word[index : index + 2] in known for index in range(len(word) - 1))
    letters = sum(letter in known for letter in word)
    return 2 * pairs + letters + (known[0] == word[:1]) - abs(len(known) - len(word))


class _Parts:
    """The words of a name, taken out one group after the other."""

    def __init__(self, name: str, faults: list[Fault]):
        self._left = name.removeprefix(WORDS).split("-")
        self._faults = faults
        for word in self._left:
            if not is_word(word):
                self.fault(f"{word[:32]!r} is no word of such names; {advice(word[:32])}")

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

    def following(self, word: str, parts: str, joined: str) -> str:
        """The words behind ``word`` that match ``parts``, joined; ``word`` itself stays."""
        if word not in self._left:
            return ""
        behind, taken = self._left[self._left.index(word) + 1 :], list[str]()
        while behind and re.fullmatch(parts, behind[0]):
            taken.append(behind.pop(0))
        for part in taken:
            self._left.remove(part)
        if not taken:
            self.fault(f"{word}: say which one behind it, such as {joined}")
        return "-".join(taken)

    def rest(self) -> list[str]:
        return self._left


def worded(name: str, names: Names, faults: list[Fault]) -> Json:
    """Return the ``spec`` of the template of a name of words, and add what is wrong with it to ``faults``."""
    parts = _Parts(name, faults)
    profile = parts.following("mig", MIG_PARTS, "mig-1g-10gb")
    template = parts.following("vnpu", VNPU_PARTS, "vnpu-vir02-1c")
    kind, count = parts.one(KINDS), int(parts.one(COUNT) or 1)
    card = parts.one((*GPU_TYPES, *NPU_TYPES, *NPU_MODELS))
    memory, cores = parts.one(MEMORY), parts.one(CORES)
    policy, sharing = parts.one(POLICIES), parts.one(tuple(SHARING))
    matching = [word for word in MATCHING if parts.one((word,))]
    if count > MOST_DEVICES:
        parts.fault(f"a claim has at most {MOST_DEVICES} devices")
    npu = card in (*NPU_TYPES, *NPU_MODELS) or kind in ("npu", "vnpu")
    if (kind in ("gpu", "mig") and npu) or (kind in ("npu", "vnpu") and card in GPU_TYPES):
        parts.fault(f"{kind} and {card} are of different vendors")
    if cores and kind != "share":
        parts.fault(f"{cores}: only a share has a part of the cores; add the word share")
    if sharing and (kind != "share" or npu):
        parts.fault(f"{sharing}: only GPUs are shared by it; add the word share")
    if not (kind or card):
        parts.fault(f"say what it is: one of {', '.join(KINDS)} or a type such as h100")
    kind = f"{'npu' if npu else 'gpu'}-share" if kind == "share" else kind or ("npu" if npu else "gpu")
    selectors = [*_card(card), *_profile(kind, profile, template)]
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


def _profile(kind: str, profile: str, template: str) -> list[str]:
    if kind == "mig" and profile:
        return [f'{{}}.profile == "{profile.replace("-", ".").replace(".me", "+me")}"']
    if kind == "vnpu" and template:
        return [f'{{}}.profile == "{template.replace("-", "_")}"']
    return []


def _amount(word: str, *, exact: bool) -> str:
    """A quantity of memory.

    A whole card is known by its nominal size, and has a little less: the driver of an H100 with "80 GB" reports
    79.6 GiB. So whole cards have at least that many thousands of millions of bytes.
    """
    number, unit = word[:-2], word[-2:]
    if exact:
        return number + {"mi": "Mi", "gi": "Gi", "gb": "G"}[unit]
    return number + {"mi": "M", "gi": "G", "gb": "G"}[unit]
