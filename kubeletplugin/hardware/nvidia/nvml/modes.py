"""Sets modes of a card."""

import pynvml

from kubeletplugin.hardware.nvidia.nvml.library import Nvml, NvmlCode, NvmlError
from kubeletplugin.hardware.port import Unsupported


def set_exclusive(nvml: Nvml, card: str, *, on: bool) -> None:
    """Let one process only (the MPS server), or any number of them, use a card.

    A card without compute modes is not exclusive.

    Raises:
        Unsupported: the card has no compute modes, and is to be exclusive.
        NvmlError: another error.
    """
    handle = nvml.device(card)
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if on else pynvml.NVML_COMPUTEMODE_DEFAULT
    if nvml.need("nvmlDeviceGetComputeMode", handle) == mode:
        return
    try:
        nvml.call("nvmlDeviceSetComputeMode", handle, mode)
    except NvmlError as error:
        if error.code != NvmlCode.NOT_SUPPORTED:
            raise
        if on:
            raise Unsupported(
                f"card {card} cannot change its compute mode, which sharing mps needs; use another sharing"
            ) from error
