"""NVML as values: the only place that knows ``pynvml`` and the structures of the C library."""
