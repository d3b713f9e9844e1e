"""Runs a scenario on both sides and turns the answers into figures."""

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.allocation import checks, hard_searches, peer
from benchmarks.allocation.scenario import BenchmarkScenario, Form
from driver.wire import Json
from tests.hard_searches import HardSearch

OUR_SECONDS = 30.0
"""Time limit of each of our runs, long enough to reach the last pod."""
POD_TIMEOUT = 10.0
"""Seconds that the peer can take for one pod; then the pod counts as answered, which favors the peer."""


@dataclass(frozen=True)
class Figures:
    """The figures of one side in a run. The last four are in milliseconds: of the first pod, and over all pods."""

    run: int
    allocated: int
    seconds: float
    first: float
    cpu: float
    median: float
    p99: float

    @classmethod
    def of(cls, raw: Json) -> "Figures":
        """The figures from the output of one of the programs."""
        each = sorted(raw["each"])
        return cls(
            run=len(each),
            allocated=sum(bool(answer.get("node")) for answer in raw["answers"]),
            seconds=raw["seconds"],
            first=1000 * raw["each"][0],
            cpu=1000 * raw["cpu"] / len(each),
            median=1000 * statistics.median(each),
            p99=1000 * each[min(len(each) - 1, len(each) * 99 // 100)],
        )

    @property
    def rate(self) -> float:
        """Claims per second, whether they fit or not."""
        return self.run / self.seconds

    @property
    def later(self) -> float:
        """Microseconds per pod after the first one, which may have new selectors."""
        return (1e6 * self.seconds - 1e3 * self.first) / max(1, self.run - 1)


@dataclass(frozen=True)
class Row:
    """The results for one workload, size, part in use and form; those of the peer if it ran."""

    scenario: BenchmarkScenario
    form: Form
    ours: Figures
    scheduler: Figures | None
    first_fit: Figures | None
    same: tuple[int, int]
    """The number of pods with the same devices as in the peer's first fit, and the number that both sides answered."""
    faults: Sequence[str]
    """Violations in our answers."""


@dataclass(frozen=True)
class Load:
    """The cost of loading a cluster: from JSON text to the first answer, and the CPU time and memory used by then."""

    scenario: BenchmarkScenario
    slices: int
    devices: int
    claims: int
    seconds: float
    cpu: float
    mebibytes: float


def ours(command: str, cluster: Path, requests: Sequence[object]) -> tuple[Json, list[Json]]:
    """The cost of loading, and our answers."""
    program = [sys.executable, "-m", "benchmarks.allocation.ours", command, str(cluster)]
    loading, *answers = peer.answers(program, cluster.with_suffix(".ours"), requests)
    return loading, answers


def measure(
    scenario: BenchmarkScenario,
    forms: Sequence[Form],
    folder: Path,
    seconds: float,
    *,
    with_peer: bool,
    profile: bool = False,
) -> tuple[Load, list[Row]]:
    """Run a scenario on our side and, with ``with_peer``, on the peer in both modes.

    Files are written to ``folder`` and removed.
    """
    cluster = folder / "cluster.jsonl"
    _write(cluster, scenario.cluster())
    pods = {form: folder / f"{form}.jsonl" for form in forms}
    for form, path in pods.items():
        _write(path, scenario.pods(form))
    runs = [{"pods": str(pods[form]), "seconds": seconds, "timeout": peer.TIMEOUT} for form in forms]
    own = {"seconds": OUR_SECONDS, "profile": profile}
    loading, answers = ours("allocate", cluster, [{**run, **own} for run in runs])
    modes = [{**run, **mode, "patience": POD_TIMEOUT} for mode in (peer.SCHEDULER, peer.FIRST_FIT) for run in runs]
    peer_answers = iter(peer.ask("allocate", cluster, modes) if with_peer else ())
    scheduler, first_fit = ([next(peer_answers, None) for _ in forms] for _ in range(2))
    rows = [
        Row(
            scenario,
            form,
            ours=Figures.of(mine),
            scheduler=Figures.of(theirs) if theirs else None,
            first_fit=Figures.of(first) if first else None,
            same=checks.same(mine["answers"], first["answers"]) if first else (0, 0),
            faults=checks.faults(cluster, pods[form], scenario.workload.names, mine["answers"]),
        )
        for form, mine, theirs, first in zip(forms, answers, scheduler, first_fit, strict=True)
    ]
    for path in (cluster, *pods.values()):
        path.unlink()
    return _load(scenario, loading), rows


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w") as file:
        file.writelines(lines)


def _load(scenario: BenchmarkScenario, raw: Json) -> Load:
    seconds = raw["read"] + raw["indexed"] + raw["first"]
    return Load(
        scenario,
        raw["slices"],
        devices=raw["devices"],
        claims=raw["claims"],
        seconds=seconds,
        cpu=raw["cpu"],
        mebibytes=raw["mebibytes"],
    )


@dataclass(frozen=True)
class HardSearchRow:
    """Milliseconds and steps for one decision; the peer's are None where it was not asked, infinite if it gave up."""

    name: str
    size: int
    fits: bool
    ours: float
    wrong: bool
    """Whether our answer is not the right one."""
    steps: int
    theirs: float | None
    their_steps: int | None


def measure_hard_search(
    name: str, size: int, search: HardSearch, folder: Path, timeout: float, *, with_peer: bool
) -> HardSearchRow:
    """Measure one hard search on both sides."""
    cluster, pods = folder / "cluster.jsonl", folder / "pods.jsonl"
    _write(cluster, hard_searches.cluster(search))
    _write(pods, hard_searches.pods(search))
    run = {"pods": str(pods), "seconds": 1000, "timeout": timeout}
    _, (mine,) = ours("allocate", cluster, [run])
    theirs: float | None = None
    their_steps: int | None = None
    if with_peer:
        (answer,) = peer.ask("allocate", cluster, [{**run, **peer.FIRST_FIT, "patience": 10 * timeout}])
        gave_up = answer["answers"][1].get("error", "")
        theirs, their_steps = float("inf") if gave_up else 1000 * answer["each"][1], answer["steps"]
    found = bool(mine["answers"][1].get("node"))
    return HardSearchRow(
        name,
        size,
        fits=search.satisfiable,
        ours=1000 * mine["each"][1],
        wrong=found != search.satisfiable,
        steps=hard_searches.steps(search),
        theirs=theirs,
        their_steps=their_steps,
    )


@dataclass(frozen=True)
class SelectorRow:
    """The evaluation of one selector on all devices of a fleet, with one thread on each side."""

    name: str
    devices: int
    first: float
    """Our seconds for the first selector that reads these attributes, including compilation."""
    ours: float
    """Our seconds for another one, including compilation."""
    theirs: float
    """The peer's seconds, without compilation."""
    agree: bool


def measure_selectors(cluster_lines: Iterable[str], selectors: Mapping[str, str], folder: Path) -> list[SelectorRow]:
    """Evaluate each selector on every device."""
    cluster = folder / "cluster.jsonl"
    _write(cluster, cluster_lines)
    texts = list(selectors.values())
    _, mine = ours("match", cluster, texts)
    theirs = peer.ask("match", cluster, texts)
    return [
        SelectorRow(
            name,
            other["devices"],
            first=one["first"],
            ours=one["seconds"],
            theirs=other["seconds"],
            agree=one["matched"] == other["matched"],
        )
        for name, one, other in zip(selectors, mine, theirs, strict=True)
    ]
