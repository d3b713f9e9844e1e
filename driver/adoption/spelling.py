"""Names of templates that people write, word by word: which words there are, and what to write instead. Pure.

The admission policy ``template-words`` says the same as ``misspelt``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from driver.adoption import migs
from driver.adoption.naming import WORDS
from driver.adoption.rules import MOST_DEVICES

KINDS: Final = ("gpu", "npu", "share", "mig", "vnpu")
GPU_TYPES: Final = tuple(
    "p4 p100 v100 t4 a2 a10 a10g a16 a30 a40 a100 a800 l4 l20 l40 l40s h20 h100 h200 h800 gh200 b100 b200 b300 "
    "gb10 gb200 gb300".split()
)
NPU_TYPES: Final = ("310b", "310p", "910a", "910b", "910c")
NPU_MODELS: Final = ("910b1", "910b2", "910b3", "910b4")
NPUS: Final = (*NPU_TYPES, *NPU_MODELS)
POLICIES: Final = ("binpack", "spread")
MATCHING: Final = ("numa", "pcie", "nvlink")
"""Devices of a claim that have the NUMA node, the PCIe root or the NVLink (HCCS) domain in common."""
SHARING: Final[Mapping[str, str]] = {"timeslicing": "timeSlicing", "mps": "mps", "hamicore": "hamiCore"}

OTHER_WORDS: Final = (*KINDS, *POLICIES, *MATCHING, *SHARING)
"""The words that name no hardware: a word without digits can be nearest to them."""
FIXED_WORDS: Final = (*OTHER_WORDS, *GPU_TYPES, *NPUS)
COUNT: Final = "[1-9]|[12][0-9]|3[0-2]"
MEMORY: Final = "[1-9][0-9]{0,6}(mi|gi|gb)"
CORES: Final = "([1-9][0-9]?|100)c"
PROFILE_WORDS: Final = f"[0-9]{{1,2}}g|{migs.SUFFIX_WORDS}|vir[0-9]{{2}}|dvpp|ndvpp|nm|m"
"""Words that are only in profiles."""
NUMBERED_WORDS: Final[Mapping[str, str]] = {"2": COUNT, "80gi": MEMORY, "30c": CORES, "vir02": PROFILE_WORDS}
"""Regular expressions of the words with numbers, by an example."""

PROFILES: Final[Mapping[str, str]] = {
    "mig": migs.WORDS,
    "vnpu": "vir[0-9]{2}(-[0-9]{1,2}c)?(-[0-9]{1,2}g)?(-(dvpp|ndvpp|nm|m))?",
}
"""MIG profiles and vNPU templates, by the kind of device that has one."""
EXAMPLES: Final[Mapping[str, str]] = {"mig": "1g-10gb", "vnpu": "vir02-1c"}

NEAR_MISSES: Final[Mapping[str, str]] = {
    "": "write a word before and behind each hyphen",
    "[0-9]+": f"a number of devices is 1 to {MOST_DEVICES}",
    "[0-9.]+c": "cores are 1c to 100c",
    "[0-9]+g[.]?[0-9]+gb.*": "a MIG profile is written with hyphens, as in lode.mig-1g-10gb",
    "vir.*": "a vNPU template is written with hyphens, as in lode.vnpu-vir02-1c",
    "[0-9.]+[kmgt][a-z]*": "memory is written as 80gi, 40960mi or 80gb",
}
"""What to write for words that were meant as one with a number, by regular expression."""
DOTTED: Final = "[0-9]+g[.][0-9]+gb.*|vir[0-9]+[.].*"
"""Words that are a profile with dots, as MIG profiles are written elsewhere."""
HYPHENS: Final = "a profile is written with hyphens"
MOST_COMPARED: Final = 16
"""Characters of a word that are compared."""
UNKNOWN: Final = "docs/requests.md has all words"
UNKNOWN_TYPE: Final = "no type of that name is known: select the cards in a ResourceClaimTemplate"
FAMILY: Final = "[a-z]+|310|910"
"""With what the names of types of one family begin."""


def _families() -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name in (*GPU_TYPES, *NPUS):
        found.setdefault(_family(name), []).append(name)
    return {family: ", ".join(names) for family, names in found.items()}


def _family(word: str) -> str:
    match = re.match(FAMILY, word)
    return match[0] if match else ""


FAMILIES: Final = _families()
"""The types of a family, by what their names begin with."""


def is_word(word: str) -> bool:
    """Return whether a word is known. Not all known words make sense together."""
    return word in FIXED_WORDS or any(re.fullmatch(pattern, word) for pattern in NUMBERED_WORDS.values())


def misspelt(name: str) -> list[str]:
    """Return what is wrong with the words of a name, each with what to write."""
    words = name.removeprefix(WORDS).split("-")
    unknown = [f"{word[:32]!r} is no word of such names; {advice(word[:32])}" for word in words if not is_word(word)]
    if not unknown:
        return _misplaced(words)
    hyphened = "-".join(word.replace(".", "-") if re.fullmatch(DOTTED, word) else word for word in words).split("-")
    if all(map(is_word, hyphened)):
        return _misplaced(hyphened) or [f"{HYPHENS}: write {WORDS}{'-'.join(hyphened)}"]
    return unknown


def advice(word: str) -> str:
    """Return what to write in the place of a word that is not known. It never names other hardware."""
    for pattern, remedy in NEAR_MISSES.items():
        if re.fullmatch(pattern, word):
            return remedy
    if re.search("[0-9]", word):
        types = FAMILIES.get(_family(word))
        return f"the types of this name are {types}" if types else UNKNOWN_TYPE
    nearest = nearest_word(word)
    return f"the nearest is {nearest!r}" if nearest else UNKNOWN


def nearest_word(word: str) -> str:
    """Return the word that names no hardware and is most like another one; of equal ones, the first; "" if none is."""
    compared = word[:MOST_COMPARED]
    nearest = max(OTHER_WORDS, key=lambda known: likeness(known, compared))
    return nearest if likeness(nearest, compared) >= len(compared) else ""


def likeness(known: str, word: str) -> int:
    """How much of the word the known one has: pairs of letters count double, single letters once.

    Words that begin with another letter are not alike.
    """
    if known[0] != word[:1]:
        return 0
    pairs = sum(word[index : index + 2] in known for index in range(len(word) - 1))
    letters = sum(letter in known for letter in word)
    return 2 * pairs + letters + 1 - abs(len(known) - len(word))


def profile_of(kind: str, words: Sequence[str]) -> list[str]:
    """Return the words of the first MIG profile or vNPU template among the words of a name, in their order."""
    match = re.search(f"(^|-)({PROFILES[kind]})(-|$)", "-".join(words))
    return match[2].split("-") if match else []


def _misplaced(words: Sequence[str]) -> list[str]:
    """Profiles without the kind of device that has them, the other way round, and parts of profiles."""
    found, placed = list[str](), list[str]()
    for kind in PROFILES:
        profile = profile_of(kind, words)
        placed += profile
        if profile and kind not in words:
            text = f"{'-'.join(profile)} needs the word {kind}: write {whole_name(kind, words, profile)}"
            rest = [word for word in words if word not in profile and word not in PROFILES]
            if any(word in (*KINDS, *GPU_TYPES, *NPUS) for word in rest):
                text += f", or {WORDS}{'-'.join(rest)} without it"
            found.append(text)
        elif kind in words and not profile:
            example = whole_name(kind, words, EXAMPLES[kind].split("-"))
            found.append(f"{kind}: say which one, as in {example}")
    parts = [word for word in words if re.fullmatch(PROFILE_WORDS, word) and word not in placed]
    found += [f"{word} is no whole profile: write one such as 1g-10gb or vir02-1c, or remove it" for word in parts]
    found += [f"{word} is there twice: write it once" for at, word in enumerate(words) if words.index(word) < at]
    return found


def whole_name(kind: str, words: Sequence[str], profile: Sequence[str]) -> str:
    """Return the name with the kind and the profile, and what can be said beside them."""
    types = GPU_TYPES if kind == "mig" else NPUS
    beside = (*types, *POLICIES, *MATCHING)
    kept = [word for word in words if word not in profile and (word in beside or re.fullmatch(COUNT, word))]
    return WORDS + "-".join([kind, *kept, *profile])
