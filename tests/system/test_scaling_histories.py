"""Whatever happens while nodes come and go: as many are made as pods need, and none is deleted under what it holds.

``LODE_SCALING_HISTORIES=n`` plays ``n`` histories, ``LODE_SCALING_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.scaling import ScalingHistory, play
from tests.system.seeds import seeds

SEEDS = seeds(10, "SCALING_")


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_come_and_go_as_pods_need_them_through_a_seeded_history(seed: int) -> None:
    play(seed)


def test_histories_make_nodes_and_protect_them() -> None:
    histories = [ScalingHistory(seed) for seed in range(6)]
    for history in histories:
        history.play()
    assert sum(len(history.machines.made) for history in histories) > 6
    assert sum(history.protected for history in histories) > 0
