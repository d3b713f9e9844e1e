"""NVIDIA GPUs, through the driver's library NVML."""
