"""Seeded histories of one node on the real backends, whose vendors' libraries answer wrongly.

``LODE_VENDOR_HISTORIES=n`` plays ``n`` histories, ``LODE_VENDOR_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.seeds import seeds
from tests.system.vendor_history import play


@pytest.mark.parametrize("seed", seeds(60, "VENDOR_"))
def test_a_wrong_answer_of_a_library_is_never_taken_for_a_fact(seed: int) -> None:
    play(seed)
