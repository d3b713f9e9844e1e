"""Pods per second from creation to binding, for cards, shares and partitions, on empty and on nearly full nodes.

    make bench-throughput                             # about an hour
    make bench-throughput ARGS="--rows 0 2"           # some of the workloads
    make bench-throughput ARGS="--rows 6 --latency 0 20 --before 1e91279"
    make bench-throughput ARGS="--rows 0 1 --before 796ffc6 --repeat 3"    # what status.devices of claims costs
    make bench-throughput ARGS="--rows 0 --without claim-finalizer.lode.dev"   # what a policy costs or saves
    python -m benchmarks.throughput --only lode --rows 0 --profile

The controller and kube-scheduler alone run one after the other, each on a separate control plane with the same nodes,
slices and pods: pods with one claim from a template. Client limits are raised for both, but in the row that says
"default client limits": there kube-scheduler has 50 calls a second, which bounds everybody, because it binds for all.
--latency is added to each call of the controller and of kube-scheduler. A contender is measured for one minute at
most. kube-controller-manager, which creates the claims for all, has higher limits and no latency. The last table says
what the API server did for a pod: its processor time by part, from a profile of the first seconds, and who asked for
what.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.throughput import table
from benchmarks.throughput.measure import Conditions, Contender, Throughput, measure
from benchmarks.throughput.table import Row
from benchmarks.throughput.workloads import WORKLOADS
from benchmarks.versions import CURRENT, versions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the contenders one after the other and print the tables."""
    arguments = parse(argv)
    with ExitStack() as ending:
        everybody = contenders(arguments.before, arguments.without, ending)
        taking_part = [it for it in everybody if arguments.only in it.name]
        rows = list(_rows(arguments, taking_part))
    print(*filter(None, (table.rates(rows), table.changes(rows), table.costs(rows), table.together(rows))), sep="\n\n")
    return 0


def _rows(arguments: argparse.Namespace, taking_part: Sequence[Contender]) -> Iterator[Row]:
    for workload in (WORKLOADS[index] for index in arguments.rows):
        for milliseconds in arguments.latency:
            label = f"{workload.title}, {milliseconds} ms" if milliseconds else workload.title
            conditions = Conditions(milliseconds / 1000, arguments.seconds, arguments.profile)
            results: dict[str, Throughput] = {}
            for contender in (it for _ in range(arguments.repeat) for it in taking_part):
                print(f"==> {label}: {contender.name}", file=sys.stderr, flush=True)
                found = measure(contender, workload, conditions)
                print(f"    {found.rate:.2f} pods/s", file=sys.stderr, flush=True)
                best = results.setdefault(contender.name, found)
                results[contender.name] = max(best, found, key=lambda it: it.rate)
            yield Row(label, workload.times_peer, results)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__.partition("\n")[0])
    listed = ", ".join(f"{index}: {workload.title}".replace("%", "%%") for index, workload in enumerate(WORKLOADS))
    every = range(len(WORKLOADS))
    parser.add_argument("--rows", type=int, nargs="+", default=list(every), choices=every, help=listed)
    parser.add_argument(
        "--seconds", type=float, default=Conditions.seconds, help="the most for one contender in one row"
    )
    parser.add_argument("--latency", type=int, nargs="+", default=[0], metavar="MS", help="added to each call")
    parser.add_argument("--before", default="", metavar="COMMIT", help="also measure the controller of this commit")
    parser.add_argument("--without", default="", metavar="POLICY", help="also measure without this policy")
    parser.add_argument("--repeat", type=int, default=1, help="measure everybody so often, in turns; the best counts")
    parser.add_argument("--only", default="", help="run only the contenders whose name contains this text")
    parser.add_argument(
        "--profile", action="store_true", help="print where the controller's main thread spends its time"
    )
    return parser.parse_args(argv)


def contenders(before: str, without: str, ending: ExitStack) -> Iterator[Contender]:
    """The contenders in the order of the table; the earlier version's tree exists until ``ending`` ends."""
    if without:
        yield Contender(f"{CURRENT.name} without {without}", CURRENT, with_controller=True, without=without)
    for version in versions(before, ending):
        yield Contender(version.name, version, with_controller=True)
    yield Contender(table.PEER, CURRENT, with_controller=False)


if __name__ == "__main__":
    sys.exit(main())
