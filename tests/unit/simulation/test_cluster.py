"""How time passes in a simulated cluster."""

from collections.abc import Callable, Sequence

import pytest

from driver.clock import Clock
from driver.errors import LodeError
from driver.kube.reflector import Reflector
from tests.simulation.cluster import SimulatedCluster
from tests.system.scenario import Scenario

WORK_SECONDS = 20.0


class Overworked:
    """A program that has more to do than there is time for."""

    reflectors: Sequence[Reflector] = ()

    def __init__(self, clock: Clock):
        self._clock = clock

    def step(self) -> bool:
        self._clock.sleep(WORK_SECONDS)
        return True

    def next_due(self) -> float | None:
        return self._clock.monotonic()


@pytest.fixture
def cluster() -> SimulatedCluster:
    found = Scenario().cluster
    found.slots.add("overworked", lambda process: Overworked(found.clock))
    return found


@pytest.mark.parametrize("passes", [SimulatedCluster.advance, SimulatedCluster.idle])
def test_time_passes_while_a_program_never_comes_to_an_end(
    cluster: SimulatedCluster, passes: Callable[[SimulatedCluster, float], None]
) -> None:
    started = cluster.clock.monotonic()
    passes(cluster, 100)
    assert 100 <= cluster.clock.monotonic() - started <= 100 + WORK_SECONDS


def test_a_cluster_does_not_settle_while_a_program_never_comes_to_an_end(cluster: SimulatedCluster) -> None:
    with pytest.raises(LodeError, match=r"the cluster does not settle: waited 50\d\d s"):
        cluster.settle()
