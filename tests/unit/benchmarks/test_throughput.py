"""The verdicts in the table of throughput, and the command line."""

from contextlib import ExitStack

import pytest

from benchmarks.throughput import table
from benchmarks.throughput.__main__ import contenders, parse
from benchmarks.throughput.measure import Throughput


def figures(rate: float, *faults: str) -> Throughput:
    return Throughput(
        pods=100, seconds=100 / rate, latencies=[1.0] * 100, cpu={"kube-apiserver": 1.0}, faults=list(faults)
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ({0: 40, 10: 40, 20: 36}, {0: 12, 10: 12, 20: 12}, "met"),
        ({0: 40, 10: 40, 20: 20}, {0: 12, 10: 12, 20: 6}, "missed: 50% of 80% left"),
        ({0: 40, 10: 30, 20: 36}, {0: 12, 10: 12, 20: 12}, "missed: 2.5 of 3 times at 10 ms"),
        ({0: 40, 20: 10}, {0: 12, 20: 12}, "missed: 0.8 of 3 times at 20 ms, 25% of 80% left"),
        ({10: 40}, {10: 12}, "met"),
        ({0: 40, 20: 36}, {}, "met"),
        ({0: 40}, {}, "-"),
    ],
)
def test_the_bars_hold_in_every_column(ours: dict[int, float], theirs: dict[int, float], verdict: str) -> None:
    results = {
        name: {at: figures(rate) for at, rate in rates.items()}
        for name, rates in ((table.CURRENT, ours), (table.PEER, theirs))
    }
    assert table.verdict(results, table.CURRENT) == verdict
    assert table.verdict(results, table.PEER) == "-"
    assert verdict in table.rates(results)
    assert table.latencies(results)


def test_conflicting_allocations_do_not_meet_the_bars() -> None:
    results = {table.CURRENT: {0: figures(1e6), 20: figures(1e6, "gpu-0 is held twice")}}
    assert table.verdict(results, table.CURRENT) == "WRONG: gpu-0 is held twice"


def test_a_short_run_can_be_selected() -> None:
    arguments = parse(["--pods", "100", "--latency", "0", "20"])
    assert (arguments.pods, arguments.latency) == (100, [0, 20])


def test_the_earlier_version_can_be_left_out() -> None:
    with ExitStack() as ending:
        assert [contender.name for contender in contenders("", ending)] == [table.CURRENT, table.PEER]
