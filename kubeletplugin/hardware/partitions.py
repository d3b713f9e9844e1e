"""Partition schemes of cards as data, and the MIG profiles of common cards. Pure.

A scheme has the counters of one card, every partition that the card supports, and the counters that each partition
consumes. Two partitions can exist at once exactly if the counters cover both.

**The order of the partitions matters**, because allocators take the first device that fits. Smaller partitions come
first, so a request that names no profile wastes least. Within a MIG profile the placements run from the top memory
slice down. Every large placement but one starts at slice 0 or 4, and only the lower half can hold ``4g``. Filling from
the top therefore breaks the upper half first and keeps the lower half whole as long as possible.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from driver.kinds import PartitionKind


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a card, at one placement."""

    profile: str
    """In the spelling of the vendor's tools: ``1g.5gb``, ``vir02_1c``."""
    slot: int
    """MIG: the first memory slice. vNPU: a sequence number; slots of one template are interchangeable."""
    memory_mib: int
    cores: int
    """Share of the card's compute, in whole per cent, rounded down."""
    draws: Mapping[str, int]
    """Amounts consumed of the card, by counter (``memory`` in MiB)."""
    sizes: Mapping[str, int]
    """Capacities published in addition to memory and cores."""

    @property
    def suffix(self) -> str:
        """End of the device's name, such as ``1g-5gb-6``; valid at the end of a DNS label."""
        return f"{_label(self.profile)}-{self.slot}"


@dataclass(frozen=True, slots=True)
class Scheme:
    """All partitions of one card model, in the order in which they are offered."""

    name: str
    kind: PartitionKind
    counters: Mapping[str, int]
    """The amounts of the whole card; ``memory`` in MiB."""
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A GPU instance profile: NVML's GetGpuInstanceProfileInfo and GetGpuInstancePossiblePlacements."""

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    memory_mib: int
    engines: Mapping[str, int] = field(default_factory=dict)
    """Multiprocessors, copy engines and media engines, by the name of their counter."""
    instances: int | None = None
    """The most instances at once; None: as many as fit."""


def memory_slice(index: int) -> str:
    """The counter of one memory slice of a MIG card."""
    return f"memory-slice-{index}"


MULTIPROCESSORS: Final = "multiprocessors"
"""The counter of the multiprocessors of a MIG card."""


def mig_scheme(name: str, profiles: Iterable[MigProfile]) -> Scheme:
    """The scheme of a MIG card. Its capacity is that of the profile that takes the whole card."""
    known = tuple(profiles)
    compute_slices = max(profile.compute_slices for profile in known)
    return Scheme(
        name,
        "mig",
        _mig_counters(known, compute_slices),
        tuple(
            Partition(
                profile.name,
                start,
                memory_mib=profile.memory_mib,
                cores=profile.compute_slices * 100 // compute_slices,
                draws=_mig_draws(profile, start),
                sizes={"memorySlices": profile.memory_slices},
            )
            for profile in known
            for start in sorted(profile.starts, reverse=True)
        ),
    )


def _mig_counters(profiles: Sequence[MigProfile], compute_slices: int) -> Mapping[str, int]:
    memory_slices = max(start + profile.memory_slices for profile in profiles for start in profile.starts)
    counters = {**{memory_slice(i): 1 for i in range(memory_slices)}, "compute-slices": compute_slices}
    for profile in profiles:
        for engine, amount in profile.engines.items():
            counters[engine] = max(amount, counters.get(engine, 0))
        if _is_limited(profile):
            counters[_limit(profile)] = profile.instances or 0
    return counters


def _mig_draws(profile: MigProfile, start: int) -> Mapping[str, int]:
    draws = {memory_slice(start + i): 1 for i in range(profile.memory_slices)}
    draws["compute-slices"] = profile.compute_slices
    draws |= profile.engines
    return draws | ({_limit(profile): 1} if _is_limited(profile) else {})


def _is_limited(profile: MigProfile) -> bool:
    """Whether the device allows fewer instances than there are placements, as of the profile with all media engines."""
    return profile.instances is not None and profile.instances < len(profile.starts)


def _limit(profile: MigProfile) -> str:
    return f"instances-{_label(profile.name)}"


@cache
def _label(profile: str) -> str:
    # ``1g.24gb+me`` has media engines and ``1g.24gb-me`` has none: both can be on one card.
    return re.sub("[._+]", "-", profile.replace("-me", "-no-me"))


@dataclass(frozen=True, slots=True)
class VnpuTemplate:
    """A vNPU template (``npu-smi info -t template-info``). It consumes only the counters that it names."""

    name: str
    memory_mib: int
    draws: Mapping[str, int]


def vnpu_scheme(name: str, totals: Mapping[str, int], templates: Iterable[VnpuTemplate]) -> Scheme:
    """The scheme of an Ascend chip. It has as many slots of each template as the chip holds of this template alone."""
    partitions = []
    for template in templates:
        draws = {"memory": template.memory_mib, **template.draws}
        fitting = min(totals[counter] // amount for counter, amount in draws.items())
        sizes = {counter: amount for counter, amount in template.draws.items() if counter in ("aicore", "aicpu")}
        cores = template.draws["aicore"] * 100 // totals["aicore"]
        partitions += [
            Partition(template.name, slot, memory_mib=template.memory_mib, cores=cores, draws=draws, sizes=sizes)
            for slot in range(fitting)
        ]
    return Scheme(name, "vnpu", dict(totals), tuple(partitions))


def _mig(names: Iterable[str], memory: Iterable[int], multiprocessors: Iterable[int]) -> tuple[MigProfile, ...]:
    """The six profiles of every eight-slice card, smallest first, with the names and sizes of one model.

    Compute slices, memory slices and placements: NVIDIA MIG User Guide, "Supported MIG Profiles" (profile ids 19, 15,
    14, 9, 5, 0) and ``nvidia-smi mig -lgipp``; multiprocessors: ``nvidia-smi mig -lgip`` ("SM"). The ``+me`` variant of
    the smallest profile is left out: it differs only in its media engines, which have no counters here.
    """
    shapes = (
        (1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (1, 2, (0, 2, 4, 6)),
        (2, 2, (0, 2, 4)),
        (3, 4, (0, 4)),
        (4, 4, (0,)),
        (7, 8, (0,)),
    )
    return tuple(
        MigProfile(name, compute, slices, starts, size, engines={MULTIPROCESSORS: count})
        for name, (compute, slices, starts), size, count in zip(names, shapes, memory, multiprocessors, strict=True)
    )


A100_40GB = mig_scheme(
    "mig-a100-40gb",
    _mig(
        ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
        (5120, 10240, 10240, 20480, 20480, 40960),
        (14, 14, 28, 42, 56, 98),
    ),
)
"""A100-SXM4-40GB and A100-PCIE-40GB. Sizes: the nominal ones that Volcano's and HAMi's MIG tables use."""

A100_80GB = mig_scheme(
    "mig-a100-80gb",
    _mig(
        ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        (9728, 19968, 19968, 40192, 40192, 80896),
        (14, 14, 28, 42, 56, 98),
    ),
)
"""A100-SXM4-80GB and A100-PCIE-80GB. Sizes: the ConfigMap Volcano's device plugin ships
(9.5, 19.5, 39.25 and 79 GiB)."""

H100_80GB = mig_scheme(
    "mig-h100-80gb",
    _mig(
        ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        (9984, 20096, 20096, 40448, 40448, 81152),
        (16, 26, 32, 60, 64, 132),
    ),
)
"""H100-SXM5-80GB. Sizes: ``nvidia-smi mig -lgip`` (9.75, 19.62, 39.5 and 79.25 GiB)."""

B200 = mig_scheme(
    "mig-b200",
    _mig(
        ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
        (22528, 45312, 45312, 90880, 90880, 182272),
        (18, 30, 36, 70, 72, 148),
    ),
)
"""B200. Sizes: ``nvidia-smi mig -lgip`` (22, 44.25, 88.75 and 178 GiB)."""

GB200 = mig_scheme(
    "mig-gb200",
    _mig(
        ("1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"),
        (22528, 46592, 46592, 93952, 93952, 188160),
        (18, 32, 38, 74, 76, 152),
    ),
)
"""GB200. Sizes and multiprocessors: ``nvidia-smi mig -lgip`` (22 and 45.5 GiB) up to ``2g``; those of larger profiles,
which are not public, as on a B200, in proportion."""

_ENGINES = ("copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")


def _of_twelve_slices() -> Iterator[MigProfile]:
    """The profiles of an RTX PRO 6000: one, two or four compute slices, and three times as many memory slices."""
    starts = {1: (0, 3, 6, 9), 2: (0, 6), 4: (0,)}
    sizes = {1: ("1g.24gb", 24192, 46), 2: ("2g.48gb", 48512, 94), 4: ("4g.96gb", 97408, 188)}
    variants: Mapping[int, Mapping[str, tuple[int, int, int, int, int]]] = {
        1: {
            "": (1, 1, 1, 1, 0),
            "+me": (1, 1, 1, 1, 1),
            "+gfx": (1, 1, 1, 1, 0),
            "+me.all": (1, 4, 4, 4, 1),
            "-me": (1, 0, 0, 0, 0),
        },
        2: {"": (2, 2, 2, 2, 0), "+gfx": (2, 2, 2, 2, 0), "+me.all": (2, 4, 4, 4, 1), "-me": (2, 0, 0, 0, 0)},
        4: {"": (4, 4, 4, 4, 1), "+gfx": (4, 4, 4, 4, 1)},
    }
    for slices, of_size in variants.items():
        name, memory_mib, multiprocessors = sizes[slices]
        for suffix, counts in of_size.items():
            engines = {kind: count for kind, count in zip(_ENGINES, counts, strict=True) if count}
            alone = 1 if suffix.startswith("+me") else len(starts[slices])
            yield MigProfile(
                name + suffix,
                slices,
                3 * slices,
                starts[slices],
                memory_mib,
                engines={MULTIPROCESSORS: multiprocessors, **engines},
                instances=alone,
            )


RTX_PRO_6000 = mig_scheme("mig-rtx-pro-6000", _of_twelve_slices())
"""RTX PRO 6000 Blackwell. Source: ``nvidia-smi mig -lgip`` and ``-lgipp``; twelve memory slices."""
