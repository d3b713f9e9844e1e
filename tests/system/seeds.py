"""Which seeded histories the tests play: a number of them, or a single one."""

import os
from collections.abc import Sequence


def seeds(most: int, kind: str = "") -> Sequence[int]:
    """Return the seeds to play.

    Args:
        most: so many, unless ``LODE_<kind>HISTORIES`` says another number, or ``LODE_<kind>SEED`` names one.
    """
    if one := os.environ.get(f"LODE_{kind}SEED"):
        return [int(one)]
    return range(int(os.environ.get(f"LODE_{kind}HISTORIES", str(most))))
