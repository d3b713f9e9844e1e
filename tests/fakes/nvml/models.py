"""Cards as their drivers report them: what each model's NVML says, as the keys of the fake library's state.

Sources: NVIDIA MIG User Guide ("Supported MIG Profiles"), ``nvidia-smi mig -lgip`` and the CUDA GPU list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1024**2


@dataclass(frozen=True)
class Profile:
    """A GPU instance profile, with the index of NVML's constants ``NVML_GPU_INSTANCE_PROFILE_*``."""

    index: int
    id: int
    name: str
    slices: int
    instances: int
    multiprocessors: int
    engines: tuple[int, int, int, int, int]
    """Copy engines, decoders, encoders, JPEG decoders, optical flow accelerators."""
    memory_mib: int
    size: int
    starts: tuple[int, ...]

    def line(self) -> str:
        """The value of the state's key."""
        starts = ",".join(map(str, self.starts))
        numbers = (self.id, self.slices, self.instances, self.multiprocessors, *self.engines, self.memory_mib)
        return f"{' '.join(map(str, numbers))} {self.size} {starts}"


@dataclass(frozen=True)
class Model:
    """What NVML reports about a model."""

    name: str
    memory_mib: int
    architecture: int
    """``NVML_DEVICE_ARCH_*``."""
    capability: str
    profiles: tuple[Profile, ...] = ()
    needs_reset: bool = False
    """Whether a change of the MIG mode waits for a reset of the card (Ampere)."""
    extra: Mapping[str, str] = field(default_factory=dict)


def _eight(
    names: tuple[str, ...], multiprocessors: tuple[int, ...], engines: tuple[str, ...], memory: tuple[int, ...]
) -> tuple[Profile, ...]:
    """The profiles of a card with eight memory slices, in the order 1g, 1g+me, 1g of two slices, 2g, 3g, 4g, 7g."""
    shapes = (
        (0, 19, 1, 7, 1, (0, 1, 2, 3, 4, 5, 6)),
        (7, 20, 1, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (9, 15, 1, 4, 2, (0, 2, 4, 6)),
        (1, 14, 2, 3, 2, (0, 2, 4)),
        (2, 9, 3, 2, 4, (0, 4)),
        (3, 5, 4, 1, 4, (0,)),
        (4, 0, 7, 1, 8, (0,)),
    )
    return tuple(
        Profile(index, number, name, slices, instances, units, _engines(counts), mib, size, starts)
        for (index, number, slices, instances, size, starts), name, units, counts, mib in zip(
            shapes, names, multiprocessors, engines, memory, strict=True
        )
    )


def _engines(counts: str) -> tuple[int, int, int, int, int]:
    copy, decoders, encoders, jpegs, flow = map(int, counts.split())
    return copy, decoders, encoders, jpegs, flow


A100 = Model(
    "NVIDIA A100-SXM4-40GB",
    40960,
    7,
    "8.0",
    _eight(
        ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
        (14, 14, 14, 28, 42, 56, 98),
        ("1 0 0 0 0", "1 1 0 1 1", "1 1 0 0 0", "2 1 0 0 0", "3 2 0 0 0", "4 2 0 0 0", "7 5 0 1 1"),
        (4864, 4864, 9856, 9856, 19968, 19968, 40192),
    ),
    needs_reset=True,
)
A30 = Model(
    "NVIDIA A30",
    24576,
    7,
    "8.0",
    (
        Profile(0, 14, "1g.6gb", 1, 4, 14, (1, 0, 0, 0, 0), 5952, 1, (0, 1, 2, 3)),
        Profile(7, 21, "1g.6gb+me", 1, 1, 14, (1, 1, 0, 1, 1), 5952, 1, (0, 1, 2, 3)),
        Profile(1, 5, "2g.12gb", 2, 2, 28, (2, 2, 0, 0, 0), 11968, 2, (0, 2)),
        Profile(8, 6, "2g.12gb+me", 2, 1, 28, (2, 2, 0, 1, 1), 11968, 2, (0, 2)),
        Profile(3, 0, "4g.24gb", 4, 1, 56, (4, 4, 0, 1, 1), 24000, 4, (0,)),
    ),
    needs_reset=True,
)
_HOPPER = ("1 1 0 1 0", "1 1 0 1 1", "1 1 0 1 0", "2 2 0 2 0", "3 3 0 3 0", "4 4 0 4 0", "8 7 0 7 1")
H100 = Model(
    "NVIDIA H100 80GB HBM3",
    81559,
    9,
    "9.0",
    _eight(
        ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        (16, 16, 26, 32, 60, 64, 132),
        _HOPPER,
        (9984, 9984, 20096, 20096, 40448, 40448, 81152),
    ),
)
H200 = Model(
    "NVIDIA H200",
    143771,
    9,
    "9.0",
    _eight(
        ("1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
        (16, 16, 26, 32, 60, 64, 132),
        _HOPPER,
        (16384, 16384, 33280, 33280, 71424, 71424, 143360),
    ),
)
_BLACKWELL = ("1 1 0 1 0", "1 1 0 1 1", "1 1 0 1 0", "2 2 0 2 0", "3 3 0 3 0", "4 4 0 4 0", "8 7 0 7 1")
B200 = Model(
    "NVIDIA B200",
    183359,
    10,
    "10.0",
    _eight(
        ("1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
        (18, 18, 30, 36, 70, 72, 148),
        _BLACKWELL,
        (22528, 22528, 45312, 45312, 90880, 90880, 182272),
    ),
)
GB200 = Model(
    "NVIDIA GB200",
    189471,
    10,
    "10.0",
    _eight(
        ("1g.23gb", "1g.23gb+me", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"),
        (18, 18, 30, 36, 70, 72, 152),
        _BLACKWELL,
        (23296, 23296, 46848, 46848, 93952, 93952, 188160),
    ),
    extra={"fabric": "0123456789abcdef0123456789abcdef 7 3"},
)
_THIRD, _HALF = (0, 3, 6, 9), (0, 6)
RTX_PRO_6000 = Model(
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    97887,
    10,
    "12.0",
    (
        Profile(0, 14, "1g.24gb", 1, 4, 46, (1, 1, 1, 1, 0), 24192, 3, _THIRD),
        Profile(7, 21, "1g.24gb+me", 1, 1, 46, (1, 1, 1, 1, 1), 24192, 3, _THIRD),
        Profile(10, 47, "1g.24gb+gfx", 1, 4, 46, (1, 1, 1, 1, 0), 24192, 3, _THIRD),
        Profile(15, 65, "1g.24gb+me.all", 1, 1, 46, (1, 4, 4, 4, 1), 24192, 3, _THIRD),
        Profile(13, 67, "1g.24gb-me", 1, 4, 46, (1, 0, 0, 0, 0), 24192, 3, _THIRD),
        Profile(1, 5, "2g.48gb", 2, 2, 94, (2, 2, 2, 2, 0), 48512, 6, _HALF),
        Profile(11, 35, "2g.48gb+gfx", 2, 2, 94, (2, 2, 2, 2, 0), 48512, 6, _HALF),
        Profile(16, 64, "2g.48gb+me.all", 2, 1, 94, (2, 4, 4, 4, 1), 48512, 6, _HALF),
        Profile(14, 66, "2g.48gb-me", 2, 2, 94, (2, 0, 0, 0, 0), 48512, 6, _HALF),
        Profile(3, 0, "4g.96gb", 4, 1, 188, (4, 4, 4, 4, 1), 97408, 12, (0,)),
        Profile(12, 32, "4g.96gb+gfx", 4, 1, 188, (4, 4, 4, 4, 1), 97408, 12, (0,)),
    ),
)
"""Twelve memory slices, with profiles of the sizes that an A30 has. Source: ``nvidia-smi mig -lgip`` and ``-lgipp``."""
RTX_PRO_5000 = Model(
    "NVIDIA RTX PRO 5000 Blackwell",
    48935,
    10,
    "12.0",
    (
        Profile(0, 14, "1g.24gb", 1, 2, 54, (1, 1, 1, 1, 0), 23936, 1, (0, 1)),
        Profile(7, 21, "1g.24gb+me", 1, 1, 54, (1, 1, 1, 1, 1), 23936, 1, (0, 1)),
        Profile(1, 0, "2g.48gb", 2, 1, 110, (2, 2, 2, 2, 1), 48128, 2, (0,)),
    ),
)
"""Two memory slices; the ids of its profiles and the memory of these are made up."""
T4 = Model("Tesla T4", 15360, 6, "7.5")
V100 = Model("Tesla V100-SXM2-32GB", 32768, 5, "7.0")
L4 = Model("NVIDIA L4", 23034, 8, "8.9")
L40S = Model("NVIDIA L40S", 46068, 8, "8.9")

MODELS: Mapping[str, Model] = {
    "A100": A100,
    "A30": A30,
    "B200": B200,
    "GB200": GB200,
    "H100": H100,
    "H200": H200,
    "L4": L4,
    "L40S": L40S,
    "RTX-PRO-5000": RTX_PRO_5000,
    "RTX-PRO-6000": RTX_PRO_6000,
    "T4": T4,
    "V100": V100,
}
