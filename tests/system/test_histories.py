"""Whatever happens to a cluster, in whatever order, nothing is handed out twice, nothing is lost, nothing is kept.

``LODE_HISTORIES=n`` plays more of them, ``LODE_SEED=n`` one.
"""

import os

import pytest

from tests.system.history import play

SEEDS = (
    [int(os.environ["LODE_SEED"])] if "LODE_SEED" in os.environ else range(int(os.environ.get("LODE_HISTORIES", "200")))
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises_through_a_seeded_history(seed: int) -> None:
    play(seed)
