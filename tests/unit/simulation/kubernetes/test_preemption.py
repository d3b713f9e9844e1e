"""Which pods the fake kube-scheduler evicts."""

from collections.abc import Sequence

import pytest

from driver.kube.api import Object
from simulation.kubernetes.preemption import victims, waits_for_victims

ROOM = 4


def pod(name: str, priority: int, size: int = 1, *, deleting: bool = False) -> Object:
    metadata = {"name": name, **({"deletionTimestamp": "2026-11-21T12:00:00Z"} if deleting else {})}
    return {"metadata": metadata, "spec": {"priority": priority}, "size": size}


def full(pending: Object, beside: Sequence[Object]) -> str:
    return "" if pending["size"] + sum(one["size"] for one in beside) <= ROOM else "full"


@pytest.mark.parametrize(
    ("present", "size", "evicted"),
    [
        ([pod("a", 0), pod("b", 0)], 2, []),
        ([pod("a", 0, 4)], 1, ["a"]),
        ([pod("a", 0, 2), pod("b", 5, 2)], 2, ["a"]),
        ([pod("a", 0, 2), pod("b", 0, 1), pod("c", 0, 1)], 1, ["c"]),
        ([pod("a", 10, 4)], 1, []),
        ([pod("a", 10, 3), pod("b", 0, 1)], 2, []),
    ],
)
def test_those_of_lower_priority_go_that_do_not_fit_beside_the_pod(
    present: list[Object], size: int, evicted: list[str]
) -> None:
    pending = pod("pending", 10, size)
    found = victims(pending, present, lambda beside: full(pending, beside))
    assert [one["metadata"]["name"] for one in found] == evicted


def test_a_pod_waits_for_pods_of_lower_priority_that_are_ending() -> None:
    pending = pod("pending", 10)
    assert waits_for_victims(pending, [pod("a", 0, deleting=True)])
    assert not waits_for_victims(pending, [pod("a", 0), pod("b", 10, deleting=True)])
