"""Instances of the plugin replace each other and die while they prepare and unprepare claims, and nothing is lost.

``LODE_HISTORIES=n`` plays ``n`` histories, ``LODE_SEED=n`` plays the history of one seed.
"""

import os

import pytest

from tests.system.instances import InstancesHistory

SEEDS = (
    [int(os.environ["LODE_SEED"])] if "LODE_SEED" in os.environ else range(int(os.environ.get("LODE_HISTORIES", "200")))
)


@pytest.mark.parametrize("seed", SEEDS)
def test_instances_replace_each_other_while_they_work(seed: int) -> None:
    InstancesHistory(seed).play()
