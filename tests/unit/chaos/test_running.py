"""A run on a simulated cluster: pods come and go, faults are done, and what is broken is found."""

import json
from dataclasses import replace
from pathlib import Path

from tests.chaos.running import Run
from tests.chaos.schedule import Fault, Kind
from tests.chaos.world import CDI, Reading
from tests.unit.chaos.simulated_stage import SimulatedStage


def run_on(stage: SimulatedStage, results: Path, seed: int = 1) -> Run:
    return Run(stage, stage, stage.settings, stage.workload(seed), results)


def journal(results: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (results / "journal.jsonl").read_text().splitlines()]


def test_a_fault_that_could_not_be_done_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    run = run_on(SimulatedStage(1), tmp_path)
    run.play([Fault(0, Kind.ETCD), Fault(5, Kind.CONTROLLER)])
    assert [(it.fault.kind, bool(it.failure)) for it in run.played] == [
        (Kind.ETCD, True),
        (Kind.CONTROLLER, False),
        (Kind.ETCD, True),
    ]


def test_a_file_that_stays_is_a_finding_of_the_fault_before_it(tmp_path: Path) -> None:
    file = f"{CDI}/lode.dev-claim_00000000-1111-4222-8333-444444444444.json"

    def leave_a_file(reading: Reading) -> Reading:
        first, second = reading.nodes
        return replace(reading, nodes=(first, replace(second, files=[*second.files, file])))

    run = run_on(SimulatedStage(1, leave_a_file), tmp_path)
    run.play([Fault(0, Kind.CONTROLLER)])
    (played, *_) = run.played
    assert f"n1: file {file} is left" in played.findings
    assert played.recovered is None
    (found, *_) = [it for it in journal(tmp_path) if it["what"] == "finding"]
    evidence = json.loads((tmp_path / str(found["reading"])).read_text())
    assert file in evidence["nodes"]["n1"]["files"]
