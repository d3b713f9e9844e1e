"""Instances of the plugin replace each other and die while they prepare and unprepare claims, and nothing is lost.

``LODE_HISTORIES=n`` plays ``n`` histories, ``LODE_SEED=n`` plays the history of one seed.
"""

import pytest

from tests.system.instances import InstancesHistory
from tests.system.seeds import seeds

SEEDS = seeds(200)


@pytest.mark.parametrize("seed", SEEDS)
def test_instances_replace_each_other_while_they_work(seed: int) -> None:
    InstancesHistory(seed).play()
