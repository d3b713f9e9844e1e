"""Sets modes of a card."""

import pynvml

from kubeletplugin.hardware.nvidia.nvml.library import Nvml


def set_exclusive(nvml: Nvml, card: str, *, on: bool) -> None:
    """Let one process only (the MPS server), or any number of them, use a card. Raises NvmlError."""
    handle = nvml.device(card)
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if on else pynvml.NVML_COMPUTEMODE_DEFAULT
    if nvml.ask(None, "nvmlDeviceGetComputeMode", handle) != mode:
        nvml.call("nvmlDeviceSetComputeMode", handle, mode)
