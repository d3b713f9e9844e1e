"""Whatever happens while room is made: nobody is evicted in vain, or for a pod that may not have it done.

``LODE_PREEMPTION_HISTORIES=n`` plays ``n`` histories, ``LODE_PREEMPTION_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.history import LAST_LINES
from tests.system.preempting import PreemptingHistory
from tests.system.seeds import seeds

SEEDS = seeds(10, "PREEMPTION_")


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_evicted_in_vain_through_a_seeded_history(seed: int) -> None:
    history = PreemptingHistory(seed)
    try:
        history.play()
    except Exception as error:
        lines = "\n".join(history.cluster.log.last(LAST_LINES))
        command = f"LODE_PREEMPTION_SEED={seed} .venv/bin/python -m pytest {__file__}"
        raise AssertionError(
            f"history {seed}: {type(error).__name__}: {error}\nreproduce: {command}\n{lines}"
        ) from error


def test_histories_evict_pods() -> None:
    evictions = []
    for seed in range(6):
        history = PreemptingHistory(seed)
        history.play()
        evictions += history.cluster.evictions.evictions
    assert len(evictions) > 3
