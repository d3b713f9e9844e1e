"""The waits of gangs that the benchmark measures."""

from dataclasses import replace

import pytest

from benchmarks.gangs.queueing import RULES, SHAPES, TIGHTEST, Arrival, Cluster, Shape, arrivals_of, mean_wait
from benchmarks.gangs.serving import Wait, serve
from benchmarks.gangs.waits import LOADS, Row, verdict

_LATE = Wait(Arrival(0, 2, 1, "g"), 2.1, 0)


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_every_gang_starts_and_the_same_waits_come_each_time(shape: Shape) -> None:
    arrivals = list(arrivals_of(shape, LOADS[-1], 1, 30))
    first, again = (mean_wait(shape, RULES[TIGHTEST], arrivals) for _ in range(2))
    assert first == again >= 0


def test_the_controller_serves_every_gang_and_lets_small_ones_pass() -> None:
    arrivals = [Arrival(0.01 * number, 18, 1, f"gang-{number}") for number in range(9)] + [
        Arrival(0.1, 1, 0.1, "single")
    ]
    arrivals[0] = replace(arrivals[0], size=16)
    served = serve(SHAPES[0], arrivals)
    assert {one.gang.name for one in served} == {one.name for one in arrivals}
    waited = {one.gang.name: one.time for one in served}
    assert waited["gang-8"] == pytest.approx(1, abs=0.1)
    assert waited["single"] < 0.1


def test_a_gang_waits_while_no_domain_has_room() -> None:
    cluster = Cluster(SHAPES[0], RULES[TIGHTEST])
    for number in range(8):
        placements = cluster.start(Arrival(0, 18, 1, f"gang-{number}"))
        assert len({placement.node[:3] for placement in placements}) == 1
    assert not cluster.start(Arrival(0, 1, 1, "late"))
    cluster.end(placements)
    assert cluster.start(Arrival(0, 18, 1, "later"))


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        (_LATE, "met"),
        (replace(_LATE, time=3.0), "missed: 1.50 times the best"),
        (replace(_LATE, passed=2), "missed: 1 gangs were passed by one of their size"),
    ],
)
def test_the_bar_is_the_best_of_the_rules_and_the_order_of_gangs_of_one_size(wait: Wait, said: str) -> None:
    assert verdict(Row(SHAPES[0], 0.8, [wait], {"first fit": 2.0})) == said
