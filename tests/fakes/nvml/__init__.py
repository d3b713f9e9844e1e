"""A fake ``libnvidia-ml.so.1``, and the machine around it.

The library's state has, beside what every fake library has (``tests.fakes.state``):

- ``driver``, ``cuda``, ``gpus`` (how many); ``gpu.<i>.<name>`` for card ``i`` in NVML's order: uuid, name, minor, pci,
  memory, ``memory.used``, ``memory.reserved``, utilization, temperature, power (milliwatts), architecture, capability,
  computemode, ``mig`` ("current pending"), ``mig.reset`` (a change of the mode waits for a reset), ``profile.<index>``
  and ``profile.<index>.name``, ``gi.<id>``, ``gi.<id>.ci.<id>``, ``.busy``, ``nvlink.<link>.state`` and ``.peer``,
  ``fabric``, ``field.<id>``, ``remapped``, ``retired``, ``events``. A missing key is a value that the driver lacks.
- ``event.<n>``: "card type data gi ci", delivered in order.
"""

import uuid
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.fakes.build import built
from tests.fakes.nvml.models import MIB, Model
from tests.fakes.state import FakeState

LIBRARY = "libnvidia-ml.so.1"
_UUIDS = uuid.UUID("6c6f6465-0000-5000-8000-6e766d6c0000")


class FakeNvml(FakeState):
    """The state of the fake library, in a file of its own."""

    def __init__(self, path: Path, driver: str = "580.65.06", cuda: int = 13000):
        super().__init__(path)
        self.change({"driver": driver, "cuda": str(cuda), "gpus": "0"})

    @staticmethod
    def library(without: Collection[str] = ()) -> Path:
        """The compiled library, without some of its symbols."""
        return built(Path(__file__).parent, LIBRARY, without)

    def add(self, model: Model, **changes: str | int | None) -> int:
        """Add a card; returns its index. ``changes`` replace keys of the card, with ``_`` for a dot."""
        index = int(self.state()["gpus"])
        own: dict[str, str | int | None] = {
            "uuid": f"GPU-{uuid.uuid5(_UUIDS, f'{self.path}/{index}')}",
            "name": model.name,
            "minor": index,
            "pci": f"0000:{0x18 + 0x10 * index:02x}:00.0",
            "memory": model.memory_mib * MIB,
            "architecture": model.architecture,
            "capability": model.capability,
            "computemode": 0,
            "events": 0xF00F,
            "field.230": 0,
            "remapped": "0 0 0 0",
            **model.extra,
        }
        if model.profiles:
            own["mig"] = "0 0"
            own["mig.reset"] = 1 if model.needs_reset else None
            for profile in model.profiles:
                own[f"profile.{profile.index}"] = profile.line()
                own[f"profile.{profile.index}.name"] = f"MIG {profile.name}"
        own |= {name.replace("_", "."): value for name, value in changes.items()}
        values = {f"gpu.{index}.{name}": value for name, value in own.items() if value is not None}
        self.change({"gpus": index + 1, **values})
        return index

    def instances(self, card: int) -> list[tuple[str, int, bool]]:
        """Profile, first memory slice and completeness of every GPU instance of a card."""
        return instances(self.state(), card)


def instances(state: Mapping[str, str], card: int) -> list[tuple[str, int, bool]]:
    """Profile, first memory slice and completeness of every GPU instance of a card."""
    return [
        (profile, start, any(name.startswith(f"gpu.{card}.gi.{number}.ci.") for name in state))
        for number, profile, start in numbered_instances(state, card)
    ]


def numbered_instances(state: Mapping[str, str], card: int) -> list[tuple[int, str, int]]:
    """The number of every GPU instance of a card, its profile and first memory slice."""
    names = {
        value.split()[0]: state[f"{key}.name"].removeprefix("MIG ")
        for key, value in state.items()
        if key.startswith(f"gpu.{card}.profile.") and f"{key}.name" in state
    }
    prefix = f"gpu.{card}.gi."
    return [
        (int(key.removeprefix(prefix)), names[value.split()[0]], int(value.split()[1]))
        for key, value in state.items()
        if key.startswith(prefix) and key.removeprefix(prefix).isdecimal()
    ]
