"""What unlike members take together is counted before it is searched."""

import pytest

from controller.gangs import Gang
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import CLUSTER, IB, GangCase, gang, hosts, member

UNLIKE = {
    "more cards than all nodes have": (gang((member(n, count=c) for n, c in enumerate((5, 4, 4, 2, 2))), CLUSTER), 4),
    "more cards than half of a node each": (gang((member(n, count=5 + n) for n in range(3)), CLUSTER), 2),
    "more CPU than all nodes have": (gang((member(n, cpus=c) for n, c in enumerate((90, 60, 51))), CLUSTER), 2),
    "more CPU than half of a node each": (gang((member(n, cpus=51 + n) for n in range(3)), CLUSTER), 2),
}


@pytest.mark.parametrize(("asked", "placed"), UNLIKE.values(), ids=UNLIKE)
def test_unlike_members_that_ask_for_too_much_together_are_refused_without_a_search(asked: Gang, placed: int) -> None:
    answer = GangCase(hosts("a", 2, {IB: "a"}), asked).decide(budget=0)
    assert isinstance(answer, Refusal)
    assert answer.why.decided
    (verdict,) = answer.why.fits
    assert (verdict.placed, verdict.reason) == (placed, "they do not fit together")
