"""MIG profiles as NVIDIA's device plugin, names of templates and people write them. Pure.

Each new card has profiles of other sizes, so a profile is known by its form and not by a list. NVML writes
``1g.24gb+me.all``; the device plugin, in whose resources there is no ``+``, ``1g.24gb.me.all``.
"""

import re
from collections.abc import Mapping
from typing import Final

_SIZE: Final = "[1-9]g[.][1-9][0-9]{0,3}gb"
_SUFFIXES: Final[Mapping[str, str]] = {
    "": "",
    ".me": "+me",
    ".me.all": "+me.all",
    ".gfx": "+gfx",
    "-me": "-me",
}
"""The ends of profiles as the device plugin writes them, and as NVML does."""

PREFIX: Final = "nvidia.com/mig-"
"""With what the names of the resources begin."""
RESOURCES: Final = f"nvidia[.]com/mig-{_SIZE}([.]me|[.]me[.]all|[.]gfx|-me)?"
"""Regular expression of the device plugin's resources."""
WORDS: Final = "[1-9]g-[1-9][0-9]{0,3}gb(-(me-all|me|gfx|no-me))?"
"""Regular expression of a profile in words."""
SUFFIX_WORDS: Final = "me|all|gfx|no"
"""Regular expression of the words of which suffixes consist."""
NONE: Final = "no"
"""What stands for the hyphen of ``-me`` in a token."""
_TOKEN: Final = re.compile(f"g([1-9]g[1-9][0-9]{{0,3}}gb)(me|meall|gfx|{NONE}me)?x")


def token_of(resource: str) -> str:
    """Return the token of a resource in names of templates: ``g1g10gbmex`` of ``nvidia.com/mig-1g.10gb.me``."""
    return f"g{resource.removeprefix(PREFIX).replace('-', NONE).replace('.', '')}x"


def profile_of_token(token: str) -> str:
    """Return the profile of a token as NVML writes it; "" if the token is not of a profile."""
    if not (match := _TOKEN.fullmatch(token)):
        return ""
    size, suffix = match[1].replace("g", "g.", 1), match[2] or ""
    return size + next(nvml for plugin, nvml in _SUFFIXES.items() if token_of(plugin) == f"g{suffix}x")


def profile_of_words(words: str) -> str:
    """Return the profile of words as NVML writes it: ``1g.24gb+me.all`` of ``1g-24gb-me-all``."""
    return next(
        profile
        for suffix in _SUFFIXES.values()
        if in_words(profile := "-".join(words.split("-")[:2]).replace("-", ".") + suffix) == words
    )


def in_words(profile: str) -> str:
    """Return a profile, as NVML writes it, in words between hyphens: ``1g-24gb-no-me`` of ``1g.24gb-me``."""
    return re.sub("[.+]", "-", profile.replace("-", "-no-"))
