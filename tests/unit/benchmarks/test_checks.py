"""The checks of answers, and the verdicts in the tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.allocation import checks, ours, table
from benchmarks.allocation.measure import Figures, Row
from benchmarks.allocation.scenario import FORMS, BenchmarkScenario, Form
from benchmarks.allocation.workloads import WORKLOADS, Workload
from driver.names import Names

NODES = 6


def write(folder: Path, scenario: BenchmarkScenario, form: Form) -> tuple[Path, Path]:
    cluster, pods = folder / "cluster", folder / "pods"
    cluster.write_text("".join(scenario.cluster()))
    pods.write_text("".join(list(scenario.pods(form))[:40]))
    return cluster, pods


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: str(workload.name))
def test_our_answers_have_no_faults(workload: Workload, form: Form, tmp_path: Path) -> None:
    cluster, pods = write(tmp_path, BenchmarkScenario(workload, NODES, "0"), form)
    loaded, _ = ours.load(cluster)
    answers = ours.allocate_all(loaded, {"pods": str(pods), "seconds": 60})["answers"]
    assert any(answer.get("node") for answer in answers)
    assert checks.faults(cluster, pods, workload.names, answers) == []


def answer(node: str, *cards: int) -> dict[str, Any]:
    place = {"request": "cards", "driver": "gpu.example.com", "pool": f"{node}/gpu.example.com"}
    return {"node": node, "results": [{"devices": {"results": [{**place, "device": f"gpu-{i}"} for i in cards]}}]}


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (answer("node-00000", 1), ""),
        (answer("node-00000", 0), "is exclusive, held by new-0, new-1"),
        (answer("node-00000", 9), "was never published"),
        (answer("node-00000", 1, 2), "wants {'cards': 1} and gets {'cards': 2}"),
    ],
)
def test_wrong_answers_are_found(second: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    cluster, pods = write(tmp_path, BenchmarkScenario(WORKLOADS[0], NODES, "0"), "repeated")
    found = checks.faults(cluster, pods, Names("gpu.example.com"), [answer("node-00000", 0), second])
    assert [complaint in fault for fault in found] == ([True] if complaint else [])


def test_released_devices_can_be_allocated_again(tmp_path: Path) -> None:
    cluster, pods = write(tmp_path, BenchmarkScenario(WORKLOADS[0], NODES, "0"), "churn")
    texts = [{**json.loads(line), "release": 0, "floor": 0} for line in pods.read_text().splitlines()]
    pods.write_text("".join(json.dumps(raw) + "\n" for raw in texts))
    assert checks.faults(cluster, pods, Names("gpu.example.com"), [answer("node-00000", 0)] * 3) == []


def test_same_answers_are_counted_for_pods_that_both_sides_answered() -> None:
    one, other = answer("node-00000", 0), answer("node-00000", 1)
    assert checks.same([one, one, {}], [one, other, {}, one]) == (2, 3)


def figures(rate: float) -> Figures:
    return Figures(run=100, allocated=100, seconds=100 / rate, first=1000 / rate, cpu=1, median=1, p99=1)


@pytest.mark.parametrize(
    ("nodes", "ours", "scheduler", "first_fit", "verdict"),
    [
        (1000, 1000, 10, 500, "met"),
        (1000, 1000, 100, 400, "missed: 10.0 of 50"),
        (1000, 1000, 100, 800, "missed: 10.0 of 50, 1.2 of 2"),
        (100, 1000, 100, 800, "-"),
    ],
)
def test_the_bars_apply_to_a_thousand_nodes(
    nodes: int, ours: float, scheduler: float, first_fit: float, verdict: str
) -> None:
    scenario = BenchmarkScenario(WORKLOADS[0], nodes, "0")
    row = Row(scenario, "repeated", figures(ours), figures(scheduler), figures(first_fit), (1, 1), ())
    assert table.verdict(row) == verdict


def test_a_wrong_answer_does_not_meet_the_bars() -> None:
    scenario = BenchmarkScenario(WORKLOADS[0], 1000, "0")
    row = Row(scenario, "repeated", figures(1e6), figures(1), figures(1), (1, 1), ("gpu-0 is held twice",))
    assert table.verdict(row) == "WRONG: gpu-0 is held twice"


def test_growth_is_measured_from_the_smallest_to_the_largest_fleet() -> None:
    def row(nodes: int, rate: float) -> Row:
        return Row(BenchmarkScenario(WORKLOADS[0], nodes, "0"), "churn", figures(rate), None, None, (0, 0), ())

    assert "met" in table.growth([row(100, 1000), row(5000, 600)])
    assert "missed: 2.50 of 1.85" in table.growth([row(100, 1000), row(5000, 400)])
