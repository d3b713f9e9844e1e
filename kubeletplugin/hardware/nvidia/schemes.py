"""MIG schemes from the facts of the device, and from tables for facts that it does not report. Pure."""

from collections.abc import Iterable, Mapping

from kubeletplugin.hardware.answer import if_read
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, ProfileFacts
from kubeletplugin.hardware.partitions import MigProfile, Scheme, mig_scheme

_Table = Mapping[tuple[int, int], tuple[int, ...]]
"""The first memory slices by compute slices and memory slices."""
_EIGHT: _Table = {
    (1, 1): (0, 1, 2, 3, 4, 5, 6),
    (1, 2): (0, 2, 4, 6),
    (2, 2): (0, 2, 4),
    (3, 4): (0, 4),
    (4, 4): (0,),
    (7, 8): (0,),
}
_FOUR: _Table = {(1, 1): (0, 1, 2, 3), (2, 2): (0, 2), (4, 4): (0,)}
_LAYOUTS: Mapping[tuple[int, int], tuple[_Table, frozenset[int]]] = {
    (8, 7): (_EIGHT, frozenset({8, 9, 10})),
    (4, 4): (_FOUR, frozenset({8})),
}
"""Tables by the number of memory slices and compute slices of the card, with the majors of the compute capability of
the cards that have them: A100, H100, B200 and their kin have eight memory slices, the A30 has four.

Source: NVIDIA MIG User Guide, "Supported MIG Profiles". Cards of the RTX PRO family have profiles with the sizes of an
A30's and other placements, so the sizes alone do not say which table it is."""
_TOLERANCE = 0.25
"""By how many memory slices the memory of a profile may differ from the table: the driver keeps some of it."""


def scheme_of(gpu: GpuFacts, family: str) -> Scheme | None:
    """The scheme of a card; None without a profile, and as long as the placements are not known.

    The device reports the profiles. Some drivers report the placements only in MIG mode; else those of NVIDIA's manual
    are used for the layouts that it has, and a profile that is not in it is left out.
    """
    profiles = if_read(gpu.partitioning)
    if not profiles:
        return None
    total = if_read(gpu.memory_mib) or whole_of(profiles).memory_mib
    usable = [made for profile in profiles if (made := _mig_profile(profile, gpu, total))]
    if not usable:
        return None
    usable.sort(key=lambda profile: (profile.memory_slices, profile.compute_slices, sum(profile.engines.values())))
    return mig_scheme(f"mig-{family.lower()}", usable)


def whole_of(profiles: Iterable[ProfileFacts]) -> ProfileFacts:
    """The profile that takes the whole card."""
    return max(profiles, key=lambda profile: (profile.slices, profile.memory_mib))


def placements_of(profile: ProfileFacts, gpu: GpuFacts) -> tuple[tuple[int, int], ...]:
    """The placements of a profile of a card: the first memory slice and the number of slices; () if unknown."""
    if profile.placements:
        return profile.placements
    table, slices = _layout_of(gpu)
    profiles = if_read(gpu.partitioning)
    size = _memory_slices(profile, whole_of(profiles), slices) if profiles and slices else 0
    return tuple((start, size) for start in table.get((profile.slices, size), ()))


def says_placements(gpu: GpuFacts) -> bool:
    """Whether the device reports the placements of each profile."""
    return all(profile.placements for profile in if_read(gpu.partitioning) or ())


def knows_placements(gpu: GpuFacts) -> bool:
    """Whether the placements of the card's profiles are known: the device reports them, or the manual has them."""
    return says_placements(gpu) or bool(_layout_of(gpu)[0])


def _layout_of(gpu: GpuFacts) -> tuple[_Table, int]:
    """The table of a card, and its number of memory slices, if all that is reported of it fits; else ({}, 0)."""
    profiles, capability = if_read(gpu.partitioning), if_read(gpu.capability)
    if not profiles:
        return {}, 0
    whole = whole_of(profiles)
    for (memory_slices, compute_slices), (table, majors) in _LAYOUTS.items():
        if whole.slices == compute_slices and capability and capability[0] in majors:
            sizes = {(it.slices, _memory_slices(it, whole, memory_slices)) for it in profiles}
            said = ((start, table.get((it.slices, size), ())) for it in profiles for start, size in it.placements)
            if sizes <= table.keys() and all(start in starts for start, starts in said):
                return table, memory_slices
    return {}, 0


def _memory_slices(profile: ProfileFacts, whole: ProfileFacts, slices: int) -> int:
    """How many memory slices a profile has; 0 if its memory is not about a number of them."""
    exact = profile.memory_mib * slices / max(whole.memory_mib, 1)
    return round(exact) if abs(exact - round(exact)) <= _TOLERANCE else 0


def name_of(profile: ProfileFacts, memory_mib: int) -> str:
    """The profile's name; if an old driver does not report it, composed as NVIDIA's tools do: ``2g.10gb``.

    Args:
        memory_mib: of the card.
    """
    if profile.name:
        return profile.name
    eighths = min(8, -(-profile.memory_mib * 8 // memory_mib))
    gigabytes = -(-memory_mib // 1024)
    return f"{profile.slices}g.{(gigabytes * eighths + 4) // 8}gb{_VARIANTS.get(profile.index, '')}"


_VARIANTS: Mapping[int, str] = {
    7: "+me",
    8: "+me",
    10: "+gfx",
    11: "+gfx",
    12: "+gfx",
    13: "-me",
    14: "-me",
    15: "+me.all",
    16: "+me.all",
    17: "+gfx",
}
"""The ends of names by ``NVML_GPU_INSTANCE_PROFILE_*``: ``REV1`` has media engines, and the others say it."""


def _mig_profile(profile: ProfileFacts, gpu: GpuFacts, memory_mib: int) -> MigProfile | None:
    places = placements_of(profile, gpu)
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
