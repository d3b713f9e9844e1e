"""``make chaos``: hours of faults on a kind cluster, and a table of what came of them.

Exit status 0 if nothing was found and each kind of fault came ten times at least; otherwise 1. The journal, and the
readings of the world in which something was found, are kept in the folder of results.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from driver.clock import SystemClock
from driver.settings import ControllerSettings, Settings
from testclusters.images import PREVIOUS
from testclusters.kind import KindCluster
from testclusters.progress import progress_step
from tests.chaos.fixtures import CURRENT, Fixtures, NotPlayed
from tests.chaos.running import Run
from tests.chaos.schedule import OF_ONE_VERSION, Fault, Kind, schedule
from tests.chaos.stage import KindStage
from tests.chaos.table import findings, lacking, table
from tests.chaos.workload import WITHOUT_NICS, Flavour, Workload
from tests.e2e.apiserver import api_server
from tests.e2e.client import Client
from tests.e2e.mixed.network_cards import DRIVER as NETWORK_CARDS
from tests.e2e.watcher import Watcher


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    faults = chosen(arguments)
    results = arguments.results / str(arguments.seed)
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    cluster = KindCluster.attach()
    for image in (CURRENT, PREVIOUS, "lode-test/busybox:1", "lode-test/dra-example-driver:1"):
        cluster.load_image(image)
    with api_server(cluster) as api:
        client = Client(cluster, api)
        fixtures = Fixtures(client, arguments.mixed)
        try:
            with progress_step("installing Lode, a device plugin and another driver"):
                fixtures.set_up()
            watcher = Watcher(client, complete=False)
            if arguments.mixed:
                with progress_step("telling Lode to allocate the network cards"):
                    fixtures.name_driver()
            also = (NETWORK_CARDS,) if arguments.mixed else ()
            settings = Settings(nvidia_dra_names=True, controller=ControllerSettings(also_allocates=also))
            workload = Workload(arguments.seed, tuple(Flavour) if arguments.mixed else WITHOUT_NICS)
            stage, kinds = KindStage(client, fixtures, watcher), kinds_of(arguments)
            run = Run(stage, SystemClock(), settings, workload, results, kinds)
            try:
                run.play(faults)
            finally:
                (results / "table.md").write_text(report(run))
                watcher.stop()
        except NotPlayed as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(report(run))
    return int(any(it.findings for it in run.played) or any(lacking(run.played, run.kinds)))


def kinds_of(arguments: argparse.Namespace) -> Sequence[Kind]:
    """The kinds of faults of the run: a version of Lode that knows no named drivers would leave them to others."""
    return OF_ONE_VERSION if arguments.mixed else tuple(Kind)


def chosen(arguments: argparse.Namespace) -> Sequence[Fault]:
    """The faults to play: all of the run, or some to try."""
    faults = schedule(arguments.seed, arguments.hours * 3600, among=kinds_of(arguments))
    if arguments.only:
        faults = [fault for fault in faults if fault.kind in arguments.only]
    return faults[: arguments.first or None]


def report(run: Run) -> str:
    """The table, what was found, and what the pods were, in Markdown."""
    pods = ", ".join(f"{flavour} {run.made[flavour]} ({len(run.ran.get(flavour, ()))})" for flavour in sorted(run.made))
    parts = [
        f"Seed {run.workload.seed}; pods made (seen running): {pods}; looked {run.looks} times.",
        table(run.played, run.kinds),
    ]
    if found := "\n".join(findings(run.played)):
        parts.append(f"Findings:\n\n{found}")
    if rare := "\n".join(f"- {line}" for line in lacking(run.played, run.kinds)):
        parts.append(f"Too rare:\n\n{rare}")
    return "\n\n".join(parts) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="how long, if recovering is quick (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and of the pods (%(default)s)")
    parser.add_argument("--mixed", action="store_true", help="with network cards, which Lode begins to allocate")
    parser.add_argument("--only", nargs="+", type=Kind, metavar="KIND", help=f"to try: {', '.join(Kind)}")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="to try: the first faults alone")
    parser.add_argument(
        "--results", type=Path, default=Path("build/chaos"), help="folder of journals, readings, tables (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
