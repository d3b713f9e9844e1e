"""MIG schemes from the facts of the device, and from tables for facts that it does not report. Pure."""

from collections.abc import Iterable, Mapping

from kubeletplugin.hardware.nvidia.nvml.facts import ProfileFacts
from kubeletplugin.hardware.partitions import MigProfile, Scheme, mig_scheme

_SIZES_OF_EIGHT: Mapping[tuple[int, bool], tuple[int, tuple[int, ...]]] = {
    (1, False): (1, (0, 1, 2, 3, 4, 5, 6)),
    (1, True): (2, (0, 2, 4, 6)),
    (2, False): (2, (0, 2, 4)),
    (3, False): (4, (0, 4)),
    (4, False): (4, (0,)),
    (7, False): (8, (0,)),
}
"""Memory slices and placements by compute slices, and by whether it is the profile with twice the memory.

Source: NVIDIA MIG User Guide, "Supported MIG Profiles", for cards with eight memory slices."""
_SIZES_OF_FOUR: Mapping[tuple[int, bool], tuple[int, tuple[int, ...]]] = {
    (1, False): (1, (0, 1, 2, 3)),
    (2, False): (2, (0, 2)),
    (4, False): (4, (0,)),
}
"""The same for cards with four memory slices (A30)."""


def scheme_of(family: str, memory_mib: int | None, profiles: Iterable[ProfileFacts]) -> Scheme | None:
    """The scheme of a card with this much memory; None without a profile.

    The device reports the profiles. Some drivers report the placements only in MIG mode; else those of NVIDIA's manual
    are used, and a profile that the manual does not have is left out.
    """
    known = list(profiles)
    if not known:
        return None
    whole = whole_of(known)
    total = memory_mib or whole.memory_mib
    usable = [made for profile in known if (made := _mig_profile(profile, whole, total))]
    if not usable:
        return None
    usable.sort(key=lambda profile: (profile.memory_slices, profile.compute_slices, sum(profile.engines.values())))
    return mig_scheme(f"mig-{family.lower()}", usable)


def whole_of(profiles: Iterable[ProfileFacts]) -> ProfileFacts:
    """The profile that takes the whole card."""
    return max(profiles, key=lambda profile: (profile.slices, profile.memory_mib))


def placements_of(profile: ProfileFacts, whole: ProfileFacts) -> tuple[tuple[int, int], ...]:
    """The placements of a profile: the first memory slice and the number of slices.

    Args:
        whole: the profile that takes the whole card.
    """
    if profile.placements:
        return profile.placements
    table, slices = (_SIZES_OF_FOUR, 4) if whole.slices == 4 else (_SIZES_OF_EIGHT, 8)
    one = whole.memory_mib / slices
    doubled = profile.slices == 1 and profile.memory_mib > 1.5 * one
    size, starts = table.get((profile.slices, doubled), (0, ()))
    return tuple((start, size) for start in starts)


def says_placements(profiles: Iterable[ProfileFacts]) -> bool:
    """Whether the device reports the placements of each profile."""
    return all(profile.placements for profile in profiles)


def name_of(profile: ProfileFacts, memory_mib: int) -> str:
    """The profile's name; if an old driver does not report it, composed as NVIDIA's tools do: ``2g.10gb``.

    Args:
        memory_mib: of the card.
    """
    if profile.name:
        return profile.name
    eighths = min(8, -(-profile.memory_mib * 8 // memory_mib))
    gigabytes = -(-memory_mib // 1024)
    extra = "+me" if profile.index in _WITH_ENGINES else ""
    return f"{profile.slices}g.{(gigabytes * eighths + 4) // 8}gb{extra}"


_WITH_ENGINES = frozenset({7, 8})
"""``NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1`` and ``2_SLICE_REV1``: the variants with media engines."""


def _mig_profile(profile: ProfileFacts, whole: ProfileFacts, memory_mib: int) -> MigProfile | None:
    places = placements_of(profile, whole)
    if not places:
        return None
    return MigProfile(
        name=name_of(profile, memory_mib),
        compute_slices=profile.slices,
        memory_slices=places[0][1],
        starts=tuple(start for start, _ in places),
        memory_mib=profile.memory_mib,
        engines=dict(profile.engines),
        instances=profile.instances,
    )
