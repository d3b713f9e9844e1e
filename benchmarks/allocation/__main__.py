"""Our allocator compared with Kubernetes' own: claims per second, hard searches, loading, and selectors.

    make bench-allocation                                        # everything
    make bench-allocation ARGS=--quick                           # two minutes
    python -m benchmarks.allocation --workloads single,mig --nodes 1000 --forms churn
    python -m benchmarks.allocation --profile single             # profile our side

The peer runs at 1,000 nodes, where the bars apply, and at other sizes only with --peer-everywhere.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from benchmarks.allocation import measure, selectors, table
from benchmarks.allocation.measure import HardSearchRow, Load, Row, SelectorRow
from benchmarks.allocation.scenario import FORMS, BenchmarkScenario, Form
from benchmarks.allocation.workloads import WORKLOADS, Workload
from tests.hard_searches import HARD_SEARCHES

PARTS = ("allocations", "hard-searches", "selectors")
SIZES = (100, 1000, 5000)
QUICK = ("single", "ib8", "vgpu", "mig", "cards")
LOADED = BenchmarkScenario(WORKLOADS[0], 5000, "50")
"""5,000 nodes with 40,000 cards and 20,000 claims."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the selected parts, print the tables and, with --json, write all figures to a file."""
    arguments = parse(argv)
    with tempfile.TemporaryDirectory(prefix="lode-benchmark-") as name:
        folder = Path(name)
        if arguments.profile:
            return _profile(arguments, folder)
        rows: list[Row] = []
        loads: list[Load] = []
        for load, found in _allocations(arguments, folder) if "allocations" in arguments.parts else ():
            rows += found
            loads.append(load)
        hard_searches = list(_hard_searches(arguments, folder)) if "hard-searches" in arguments.parts else []
        chosen = selectors.SELECTORS if "selectors" in arguments.parts else {}
        nodes = 1000 if arguments.quick else selectors.NODES
        evaluated = measure.measure_selectors(selectors.cluster(nodes), chosen, folder) if chosen else []
    _print(rows, loads, hard_searches, evaluated)
    if arguments.json:
        everything = {
            "allocations": [table.as_json(row) for row in rows],
            "loads": [{**asdict(load), "scenario": load.scenario.name} for load in loads],
            "hard_searches": [table.hard_search_as_json(row) for row in hard_searches],
            "selectors": [asdict(row) for row in evaluated],
        }
        arguments.json.write_text(json.dumps(everything, indent=1))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line and apply what --quick implies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allocation", description=__doc__.partition("\n")[0])
    names = ",".join(workload.name for workload in WORKLOADS)
    parser.add_argument("--quick", action="store_true", help="a few rows at 1,000 nodes, about two minutes")
    parser.add_argument("--parts", type=_listed(PARTS), default=PARTS, help=",".join(PARTS))
    parser.add_argument("--workloads", type=_listed([w.name for w in WORKLOADS]), default=(), help=names)
    parser.add_argument("--nodes", type=lambda text: [int(part) for part in text.split(",")], help="such as 100,1000")
    parser.add_argument("--in-use", type=lambda text: text.split(","), help="percent of the cards, such as 0,90")
    parser.add_argument("--forms", type=_listed(get_args(Form)), help=",".join(FORMS))
    parser.add_argument("--seconds", type=float, default=1.5, help="for each run; the current pod is completed")
    parser.add_argument("--hard-search-timeout", type=float, default=3.0, help="seconds after which the peer gives up")
    parser.add_argument("--peer-everywhere", action="store_true", help="run the peer at every size")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--profile", metavar="WORKLOAD", choices=names.split(","), help="profile our side only")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.seconds, arguments.hard_search_timeout = 1.0, 1.0
        arguments.nodes = arguments.nodes or [1000]
        arguments.workloads = arguments.workloads or QUICK
        arguments.in_use = arguments.in_use or ["0", "90"]
        arguments.forms = arguments.forms or ["repeated", "churn"]
    return arguments


def _listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        parts = text.split(",")
        if unknown := set(parts) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
        return parts

    return chosen


def plan(arguments: argparse.Namespace) -> Iterator[tuple[BenchmarkScenario, list[Form]]]:
    """The scenarios and their forms: everything at 1,000 nodes, and at other sizes what shows the growth."""
    chosen = [workload for workload in WORKLOADS if not arguments.workloads or workload.name in arguments.workloads]
    for workload in chosen:
        for nodes in arguments.nodes or [size for size in SIZES if size <= workload.largest]:
            for in_use in _states(workload, nodes, arguments):
                yield BenchmarkScenario(workload, nodes, in_use), arguments.forms or _forms(nodes, in_use)
    if not (arguments.nodes or arguments.workloads or arguments.in_use):
        yield LOADED, ["repeated"]


def _states(workload: Workload, nodes: int, arguments: argparse.Namespace) -> Sequence[str]:
    if arguments.in_use:
        return [state for state in arguments.in_use if state in workload.in_use or not state.endswith("p")]
    return workload.in_use if nodes == table.BAR_NODES else workload.in_use[:1]


def _forms(nodes: int, in_use: str) -> list[Form]:
    if nodes == table.BAR_NODES:
        return list(FORMS) if in_use.rstrip("p") in ("0", "90") else ["repeated"]
    return ["repeated", "churn"]


def _allocations(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[Load, list[Row]]]:
    for scenario, forms in plan(arguments):
        with_peer = arguments.peer_everywhere or scenario.nodes == table.BAR_NODES
        _say(f"{scenario.name}: {', '.join(forms)}")
        load, rows = measure.measure(scenario, forms, folder, arguments.seconds, with_peer=with_peer)
        _say(table.allocations(rows))
        yield load, rows


def _hard_searches(arguments: argparse.Namespace, folder: Path) -> Iterator[HardSearchRow]:
    for name, (make, sizes) in HARD_SEARCHES.items():
        for size in sizes[:1] if arguments.quick else sizes:
            _say(f"{name} {size}")
            with_peer = size == sizes[0]
            timeout = arguments.hard_search_timeout
            yield measure.measure_hard_search(name, size, make(size), folder, timeout, with_peer=with_peer)


def _profile(arguments: argparse.Namespace, folder: Path) -> int:
    workload = next(workload for workload in WORKLOADS if workload.name == arguments.profile)
    for nodes in arguments.nodes or [1000]:
        for in_use in arguments.in_use or workload.in_use[:1]:
            forms: list[Form] = arguments.forms or ["repeated"]
            scenario = BenchmarkScenario(workload, nodes, in_use)
            _say(f"{scenario.name}: {', '.join(forms)}")
            measure.measure(scenario, forms, folder, arguments.seconds, with_peer=False, profile=True)
    return 0


def _print(
    rows: list[Row], loads: list[Load], hard_searches: list[HardSearchRow], evaluated: list[SelectorRow]
) -> None:
    if rows:
        print(table.allocations(rows), table.growth(rows), table.loads(loads), sep="\n\n")
    if hard_searches:
        print(f"\n{table.hard_searches(hard_searches)}")
    if evaluated:
        print(f"\n{table.selectors(evaluated)}")


def _say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
