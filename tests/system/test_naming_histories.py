"""Whatever happens while an operator names a driver of others: no device of any driver is in two hands.

``LODE_NAMING_HISTORIES=n`` plays ``n`` histories, ``LODE_NAMING_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.naming import NamingHistory, play
from tests.system.seeds import seeds

SEEDS = seeds(6, "NAMING_")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_device_is_in_two_hands_while_a_driver_is_named(seed: int) -> None:
    play(seed)


def test_histories_have_claims_from_before_and_claims_for_devices_of_two_drivers() -> None:
    histories = [NamingHistory(seed) for seed in range(4)]
    for history in histories:
        history.play()
    assert sum(len(history.before) for history in histories) > 0
    assert sum(history.mixed for history in histories) > 2
    assert sum(history.near for history in histories) > 0
