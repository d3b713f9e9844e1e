"""The workloads, the verdicts in the table of throughput, and the command line."""

from contextlib import ExitStack

import pytest

from benchmarks import fleet
from benchmarks.controlplane import NAMESPACE
from benchmarks.throughput import table
from benchmarks.throughput.__main__ import contenders, parse
from benchmarks.throughput.measure import CONTROLLER, Throughput
from benchmarks.throughput.table import CURRENT, PEER, Row
from benchmarks.throughput.workloads import WORKLOADS, Workload
from driver.kube.api import NAMESPACES, RESOURCE_CLAIMS
from driver.model import Result
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import claim_from
from memoryapi import MemoryApi
from simulation.clock import VirtualClock
from simulation.invariants import Catalogue, Holding

OCCUPIED = [workload for workload in WORKLOADS if workload.used]


def figures(rate: float, *faults: str, bound: int = 100, cpu: float = 1.0) -> Throughput:
    return Throughput(
        wanted=100,
        pods=bound,
        seconds=100 / rate,
        latencies=[1.0] * bound,
        cpu={"kube-apiserver": cpu},
        faults=list(faults),
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "bar", "verdict"),
    [
        (60, 12, 5, "met"),
        (48, 12, 5, "missed: 4.0 of 5 times"),
        (12, 12, 1, "met"),
        (11, 12, 1, "missed: 0.9 of 1 times"),
        (60, 12, 0, "-"),
    ],
)
def test_the_bar_is_a_multiple_of_the_peers_rate(ours: float, theirs: float, bar: float, verdict: str) -> None:
    row = Row("a card", bar, {CURRENT: figures(ours), PEER: figures(theirs)})
    assert table.verdict(row) == verdict
    assert verdict in table.rates([row])
    assert "a card: kube-scheduler" in table.costs([row])


def test_conflicting_allocations_do_not_meet_the_bar() -> None:
    row = Row("a card", 5, {CURRENT: figures(1e6, "gpu-0 is held twice"), PEER: figures(1)})
    assert table.verdict(row) == "WRONG: gpu-0 is held twice"


def test_a_contender_that_did_not_bind_every_pod_says_how_many_it_bound() -> None:
    assert "50 (50 of 100)" in table.rates([Row("a card", 5, {PEER: figures(100, bound=50)})])
    assert table.verdict(Row("a card", 5, {CURRENT: figures(100), PEER: figures(100, bound=0)})) == "met"


@pytest.mark.parametrize(
    ("cpu", "limit"),
    [(0.1, "waiting (calls, client limits)"), (0.9, "one core of kube-apiserver"), (1.8, "2 cores")],
)
def test_what_limits_the_rate_follows_from_the_processor_time(
    cpu: float, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert figures(100, cpu=cpu).bound_by.startswith(limit)


@pytest.mark.parametrize("workload", OCCUPIED, ids=lambda it: it.name)
def test_nine_tenths_are_in_use_without_any_conflict(workload: Workload) -> None:
    few = Workload(**{**vars(workload), "nodes": 10})
    catalogue = Catalogue(Names(DEFAULT_DRIVER))
    for raw in fleet.slices(few.cards(), few.offer):
        catalogue.learn(raw)
    claims = [claim_from({**it.claim(), "status": it.status("uid")}) for it in few.holders()]
    held: list[Result] = [result for claim in claims if claim.allocation for result in claim.allocation.results]
    assert not list(catalogue.conflicts(Holding("claim", result) for result in held))
    cards = {(result.device.pool, result.device.device.split("-")[1]) for result in held}
    assert len(cards) == (80 if "share" in workload.name else 72)


@pytest.mark.parametrize("workload", OCCUPIED, ids=lambda it: it.name)
def test_the_api_takes_what_is_in_use(workload: Workload) -> None:
    api = MemoryApi(VirtualClock())
    api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    holder = next(Workload(**{**vars(workload), "nodes": 1}).holders())
    claim = api.create(RESOURCE_CLAIMS, holder.claim())
    stored = api.update(RESOURCE_CLAIMS, {**claim, "status": holder.status("uid")}, "status")
    assert claim_from(stored).allocation


def test_some_workloads_can_be_selected() -> None:
    assert parse(["--rows", "0", "2"]).rows == [0, 2]
    assert parse([]).rows == list(range(len(WORKLOADS)))


def test_the_earlier_version_can_be_left_out() -> None:
    with ExitStack() as ending:
        assert [contender.name for contender in contenders("", ending)] == [CURRENT, PEER]


def test_the_controllers_time_is_told_where_there_is_one() -> None:
    assert CONTROLLER in table.costs([Row("a card", 5, {PEER: figures(1)})])
