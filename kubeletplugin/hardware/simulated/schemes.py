"""Partition schemes: the built-in ones by name, and those that a profile defines.

A scheme is a mapping with ``kind``, ``counters`` and ``partitions``; a partition has ``profile``, ``slot``,
``memoryMiB``, ``cores``, ``draws`` and ``sizes``. The fields mean what they mean in ``Scheme`` and ``Partition``.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from driver.kinds import PartitionKind
from kubeletplugin.hardware.ascend.generations import A910, B910, P310
from kubeletplugin.hardware.ascend.templates import (
    A910_16G,
    A910_32G,
    CORES_20_32G,
    CORES_20_64G,
    CORES_24,
    P310_24G,
    P310_48G,
    table_scheme,
)
from kubeletplugin.hardware.partitions import (
    A100_40GB,
    A100_80GB,
    B200,
    GB200,
    H100_80GB,
    RTX_PRO_6000,
    Partition,
    Scheme,
)

SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        A100_40GB,
        A100_80GB,
        H100_80GB,
        B200,
        GB200,
        RTX_PRO_6000,
        table_scheme(P310_24G, 24576, P310),
        table_scheme(P310_48G, 49152, P310),
        table_scheme(A910_32G, 32768, A910),
        table_scheme(A910_16G, 16384, A910),
        table_scheme(CORES_24, 65536, B910),
        table_scheme(CORES_20_64G, 65536, B910),
        table_scheme(CORES_20_32G, 32768, B910),
    )
}
"""Every scheme that a profile may name, for chips with the nominal amount of memory."""

Amount = Annotated[int, Field(ge=0)]


class _PartitionEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str = Field(min_length=1)
    slot: int = Field(ge=0)
    memory_mib: int = Field(ge=1, alias="memoryMiB")
    cores: int = Field(ge=0, le=100)
    draws: dict[str, Amount]
    sizes: dict[str, Amount] = {}


class SchemeEntry(BaseModel):
    """One scheme of a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    kind: PartitionKind
    counters: dict[str, Amount]
    partitions: tuple[_PartitionEntry, ...]

    @model_validator(mode="after")
    def _counters_cover_each_partition(self) -> "SchemeEntry":
        for partition in self.partitions:
            for counter, amount in partition.draws.items():
                if amount > self.counters.get(counter, 0):
                    raise ValueError(
                        f"partition {partition.profile} in slot {partition.slot} draws {amount} of the counter "
                        f"{counter!r}, and the card has {self.counters.get(counter, 0)}"
                    )
        return self

    @property
    def scheme(self) -> Scheme:
        """The scheme that is written here."""
        return Scheme(
            self.name, self.kind, self.counters, tuple(Partition(**part.model_dump()) for part in self.partitions)
        )


def scheme_to(scheme: Scheme) -> Mapping[str, Any]:
    """The scheme as ``SchemeEntry`` reads it."""
    return {
        "name": scheme.name,
        "kind": scheme.kind,
        "counters": dict(scheme.counters),
        "partitions": [
            {
                "profile": partition.profile,
                "slot": partition.slot,
                "memoryMiB": partition.memory_mib,
                "cores": partition.cores,
                "draws": dict(partition.draws),
                "sizes": dict(partition.sizes),
            }
            for partition in scheme.partitions
        ],
    }
