"""Pods per second from creation to binding, when each call of the API takes 0, 10 and 20 ms longer.

    make bench-throughput                             # 1,000 nodes, 600 pods, about ten minutes
    make bench-throughput ARGS="--pods 100 --latency 0 20"
    python -m benchmarks.throughput --only lode --before "" --latency 0 --profile

An earlier version of the controller, the current one, and kube-scheduler alone run one after the other, for each
latency on a separate control plane with the same nodes and slices (eight whole cards each) and the same pods: one claim
from a template for a card by type and memory. The latency is added to each call of our controller and of
kube-scheduler. kube-scheduler has its default client limits. kube-controller-manager, which creates the claims for all,
has higher ones and no latency.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.throughput import table
from benchmarks.throughput.measure import Contender, Throughput, measure
from benchmarks.versions import BEFORE, CURRENT, versions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the contenders one after the other and print the tables."""
    arguments = parse(argv)
    results: dict[str, dict[int, Throughput]] = {}
    with ExitStack() as ending:
        for contender in contenders(arguments.before, ending):
            if arguments.only not in contender.name:
                continue
            for milliseconds in arguments.latency:
                print(f"==> {contender.name}, {milliseconds} ms", file=sys.stderr, flush=True)
                found = measure(
                    contender, arguments.nodes, arguments.pods, milliseconds / 1000, profile=arguments.profile
                )
                results.setdefault(contender.name, {})[milliseconds] = found
                print(f"    {found.rate:.1f} pods/s", file=sys.stderr, flush=True)
    print(table.rates(results), table.latencies(results), sep="\n\n")
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--latency", type=int, nargs="+", default=[0, 10, 20], metavar="MS", help="such as 0 20")
    parser.add_argument(
        "--before", default=BEFORE, metavar="COMMIT", help='the earlier version (%(default)s); "": none'
    )
    parser.add_argument("--only", default="", help="run only the contenders whose name contains this text")
    parser.add_argument(
        "--profile", action="store_true", help="print where the controller's main thread spends its time"
    )
    return parser.parse_args(argv)


def contenders(before: str, ending: ExitStack) -> Iterator[Contender]:
    """The contenders in the order of the table; the earlier version's tree exists until ``ending`` ends."""
    for version in versions(before, ending):
        yield Contender(version.name, version, with_controller=True)
    yield Contender(table.PEER, CURRENT, with_controller=False)


if __name__ == "__main__":
    sys.exit(main())
