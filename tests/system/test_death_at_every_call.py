"""Each program is killed before its first, second, third ... call, up to the sixtieth; no device is lost or left held.

This includes the points between finalizer and allocation, between allocation and gate, and between checkpoint and CDI
file.
"""

import pytest

from driver.kube.api import PODS
from tests.simulation.settled_checks import check_empty
from tests.system.objects import NAMESPACE
from tests.system.scenario import Scenario

PROGRAMS = ["controller-0", "plugin-n1", "kubelet-n1", "kube-scheduler", "resource-claim-controller"]
MOST_CALLS = 60


def _crash_once(program: str, calls: int) -> bool:
    """Create and delete three pods while ``program`` crashes once at that call; returns whether it never crashed."""
    scenario = Scenario(calls, profile="t4x2", count=2)
    cluster = scenario.cluster
    published = cluster.invariants.pools()
    cluster.slots.crash_after(program, calls)
    scenario.create("whole", "gpu-1")
    scenario.create("part", "share-small")
    scenario.settle()
    scenario.create("too-many", "gpu-2")
    assert scenario.running("whole", "part")
    cluster.user.delete(PODS, "whole", NAMESPACE)
    cluster.user.delete(PODS, "part", NAMESPACE, grace_period_seconds=0)
    scenario.settle()
    assert scenario.running("too-many")
    scenario.delete("too-many")
    cluster.settle()
    check_empty(cluster, published)
    return cluster.slots.crash_pending(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_may_die_before_any_of_its_calls(program: str) -> None:
    for calls in range(1, MOST_CALLS):
        if _crash_once(program, calls):
            return
