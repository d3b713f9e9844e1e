"""The waits of gangs that the benchmark measures."""

import pytest

from benchmarks.gangs.queueing import LOADS, OURS, RULES, SHAPES, Arrival, Cluster, Row, Shape, mean_wait, verdict


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_every_gang_starts_and_the_same_waits_come_each_time(shape: Shape) -> None:
    first, again = (mean_wait(shape, LOADS[-1], RULES[OURS], 1, gangs=30) for _ in range(2))
    assert first == again >= 0


def test_a_gang_waits_while_no_domain_has_room() -> None:
    cluster = Cluster(SHAPES[0], RULES[OURS])
    for number in range(8):
        placements = cluster.start(Arrival(0, 18, 1, f"gang-{number}"))
        assert len({placement.node[:3] for placement in placements}) == 1
    assert not cluster.start(Arrival(0, 1, 1, "late"))
    cluster.end(placements)
    assert cluster.start(Arrival(0, 18, 1, "later"))


@pytest.mark.parametrize(("waits", "said"), [((2.1, 2.0), "met"), ((3.0, 2.0), "missed: 1.50 times the best")])
def test_the_bar_is_the_best_of_the_rules(waits: tuple[float, float], said: str) -> None:
    assert verdict(Row(SHAPES[0], 0.8, dict(zip((OURS, "first fit"), waits, strict=True)))) == said
