"""Whatever happens to a cluster with gangs: all or nothing, one fabric, and no gang waits in vain.

``LODE_GANG_HISTORIES=n`` plays ``n`` histories, ``LODE_GANG_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.history import play
from tests.system.seeds import seeds

SEEDS = seeds(8, "GANG_")


@pytest.mark.parametrize("seed", SEEDS)
def test_gangs_start_whole_through_a_seeded_history(seed: int) -> None:
    play(seed, with_gangs=True)
