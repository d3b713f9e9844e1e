"""The workloads, the verdicts in the table of throughput, and the command line."""

from contextlib import ExitStack

import pytest

from benchmarks import fleet
from benchmarks.controlplane import NAMESPACE
from benchmarks.throughput import table
from benchmarks.throughput.__main__ import contenders, parse
from benchmarks.throughput.measure import CONTROLLER, Throughput, described
from benchmarks.throughput.table import CURRENT, PEER, Row
from benchmarks.throughput.workloads import WORKLOADS, Workload
from driver.kube.api import NAMESPACES, RESOURCE_CLAIMS
from driver.model import Result
from driver.names import DEFAULT_DRIVER, Names
from driver.wire import claim_from
from memoryapi import MemoryApi
from simulation.invariants import Catalogue, Holding
from tests.simulation.clock import VirtualClock

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


@pytest.mark.parametrize(("now", "verdict"), [(100, "met"), (97.5, "met"), (96.5, "missed: -3.5%"), (120, "met")])
def test_the_rate_may_fall_by_three_percent_of_that_of_the_version_before(now: float, verdict: str) -> None:
    row = Row("a card", 5, {"1e91279": figures(100), CURRENT: figures(now), PEER: figures(12)})
    assert verdict in table.changes([row])
    assert "a card: 1e91279" in table.changes([row])
    assert table.changes([Row("a card", 5, {CURRENT: figures(now), PEER: figures(12)})]) == ""


def test_a_claim_says_its_cards_if_each_device_has_an_entry() -> None:
    api = MemoryApi(VirtualClock())
    api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    key = {"driver": DEFAULT_DRIVER, "pool": "n1/lode.dev", "device": "gpu-0"}
    requests = [{"name": "card", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
    for name, devices in (("says", [key]), ("silent", []), ("waits", [])):
        claim = api.create(
            RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}, NAMESPACE
        )
        if name != "waits":
            allocation = {"devices": {"results": [{"request": "card", **key}]}}
            api.update(RESOURCE_CLAIMS, {**claim, "status": {"allocation": allocation, "devices": devices}}, "status")
    assert described(api) == 0.5


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
        assert [contender.name for contender in contenders("", "", ending)] == [CURRENT, PEER]


def test_the_current_version_takes_part_with_and_without_a_policy() -> None:
    with ExitStack() as ending:
        left_out = {contender.name: contender.without for contender in contenders("", "a.lode.dev", ending)}
    assert left_out == {"lode without a.lode.dev": "a.lode.dev", CURRENT: "", PEER: ""}


def test_the_controllers_time_is_told_where_there_is_one() -> None:
    assert CONTROLLER in table.costs([Row("a card", 5, {PEER: figures(1)})])
