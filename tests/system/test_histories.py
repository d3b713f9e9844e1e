"""Whatever happens to a cluster, in any order, no device is allocated twice, lost, or left held without a user.

``LODE_HISTORIES=n`` plays ``n`` histories, ``LODE_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.history import play
from tests.system.seeds import seeds

SEEDS = seeds(500)


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_through_a_seeded_history(seed: int) -> None:
    play(seed)
