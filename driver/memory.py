"""Gives memory back that the program has freed."""

import ctypes
import gc


def give_back() -> None:
    """Return freed memory to the kernel, for use after a start: what imports and settings leave is never used again.

    The C library keeps freed memory between what is in use (glibc, malloc_trim(3)). Others do nothing.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
