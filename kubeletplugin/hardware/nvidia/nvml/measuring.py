"""Reads what a card measures of itself."""

from typing import Any

import pynvml

from kubeletplugin.hardware.answer import LACKS
from kubeletplugin.hardware.nvidia.nvml.library import LOST, Nvml, NvmlError
from kubeletplugin.hardware.port import CardGone
from kubeletplugin.hardware.readings import Readings, ask_each

_MILLIWATTS = 1000


def read_measures(nvml: Nvml, card: str) -> Readings:
    """The readings of a card.

    Raises:
        Gone: the card is lost.
        NvmlError: it cannot be asked at all.
    """
    handle = nvml.device(card)

    def ask(function: str, *arguments: Any) -> Any:
        try:
            answer = nvml.need(function, handle, *arguments)
        except NvmlError as error:
            if error.code in LOST:
                raise CardGone(f"card {card}: {error}") from error
            raise
        return None if answer is LACKS else answer  # as utilization in MIG mode

    def utilization() -> float | None:
        rates = ask("nvmlDeviceGetUtilizationRates")
        return None if rates is None else rates.gpu / 100

    def memory_used() -> float | None:
        # The first version counts what the driver keeps for itself as used. Old drivers have no other.
        memory = ask("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2) or ask("nvmlDeviceGetMemoryInfo")
        return None if memory is None else float(memory.used)

    def power() -> float | None:
        milliwatts = ask("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / _MILLIWATTS

    return ask_each(
        {
            "utilization": utilization,
            "memoryUsed": memory_used,
            "temperature": lambda: ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
            "power": power,
        }
    )
