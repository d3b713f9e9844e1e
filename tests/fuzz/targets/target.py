"""What a target is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A door to the programs. ``run`` raises any exception if its promise is broken for the bytes."""

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...] = (b"",)
    """Inputs to begin with."""
