"""The choice of victims asks few questions, however many nodes there are: nodes that are alike are asked once."""

import pytest

from controller.preemption import Preemption, Unevicted
from tests.unit.controller.preemption.cases import SMALL, THIRD, WHOLE, Cluster, nobody, pod, victims

NODES = 60


def full(cards: int, *kinds: str, pods: int = 1) -> Cluster:
    """Nodes with so many pods each, which differ only in their age; the youngest are on the last node."""
    cluster = Cluster([cards] * NODES)
    for number in range(NODES):
        for one in range(pods):
            assert cluster.hold(f"low-{number}-{one}", *kinds, node=f"n{number + 1}", created=number * pods + one)
    return cluster


def test_one_trial_finds_the_victim_among_many_nodes() -> None:
    answer = full(1, WHOLE).preempt(pod(WHOLE), trials=1)
    assert victims(answer) == [f"low-{NODES - 1}-0"]
    assert isinstance(answer, Preemption)
    assert answer.least


def test_one_trial_tells_that_nobody_makes_room_on_nodes_that_are_alike() -> None:
    answer = full(1, WHOLE).preempt(pod(WHOLE, WHOLE), trials=1)
    assert nobody(answer) == Unevicted(in_vain=NODES)


@pytest.mark.parametrize(("cards", "kind", "pods", "wanted"), [(4, WHOLE, 4, 4), (4, WHOLE, 4, 2), (1, SMALL, 7, 1)])
def test_many_victims_are_found_with_the_trials_of_one_node(cards: int, kind: str, pods: int, wanted: int) -> None:
    answer = full(cards, kind, pods=pods).preempt(pod(*[WHOLE] * wanted), trials=60)
    assert isinstance(answer, Preemption)
    assert answer.least
    last = [f"low-{NODES - 1}-{one}" for one in reversed(range(pods))]
    assert victims(answer) == last[: len(answer.victims)]


def test_nodes_are_not_alike_if_pods_hold_other_devices() -> None:
    cluster = full(2, WHOLE)
    for number in range(NODES):
        # Only on one node, a third of the card of the youngest pod's node is all that is in the way.
        kind = THIRD if number == 7 else WHOLE
        assert cluster.hold(f"other-{number}", kind, node=f"n{number + 1}", priority=1)
    assert victims(cluster.preempt(pod(WHOLE, WHOLE))) == ["low-7-0", "other-7"]
