"""Whatever happens while room is made: nobody is evicted in vain, or for a pod that may not have it done.

``LODE_PREEMPTION_HISTORIES=n`` plays ``n`` histories, ``LODE_PREEMPTION_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.preempting import PreemptingHistory, play
from tests.system.seeds import seeds

SEEDS = seeds(10, "PREEMPTION_")


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_evicted_in_vain(seed: int) -> None:
    play(seed)


def test_histories_evict_pods_for_pods_and_for_gangs() -> None:
    evictions = []
    for seed in range(6):
        history = PreemptingHistory(seed)
        history.play()
        evictions += history.cluster.evictions.evictions
    for_gangs = [one for one in evictions if any(name.startswith("gang-") for _, name in one.preemptors.values())]
    assert len(for_gangs) > 1
    assert len(evictions) - len(for_gangs) > 1
