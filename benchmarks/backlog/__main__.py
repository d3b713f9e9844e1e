"""What 5,000 waiting pods cost, and whether others wait for them, when each call of the API takes 10 ms longer.

    make bench-backlog                                # about twenty minutes
    make bench-backlog ARGS="--nodes 50 --waiting 300 --fitting 5 --freed 5 --steady 15 --limit 60"

An earlier version of the controller and the current one run one after the other, each on a real control plane of its
own, without kubelets: 1,000 nodes with eight cards, all cards but those of one model in use, and pods of several shapes
that wait for them from the beginning. Then, one part after the other:

- Right after the controller's start, pods that fit at once are created at intervals. How long until each is let go?
- When the controller has told everybody: what does a minute cost in which nothing changes? The API server's audit log
  counts the writes; renewals of the Lease do not count.
- Pods that fit, again.
- Pods that hold a card are deleted one after the other. How long after the card's release does another claim hold it?

Then the current version alone, on a control plane of its own with fewer nodes: pods that fit are created at intervals
right after the controller's start, with a flood of another namespace's pods that never fit. How long until each is let
go? This part alone takes two minutes:

    make bench-backlog ARGS="--only flood"
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.backlog import flood, table
from benchmarks.backlog.measure import Backlog, Plan, measure
from benchmarks.versions import BEFORE, versions

FLOOD = "flood"
"""The part with a flood, as ``--only`` names it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the versions one after the other and print the table."""
    arguments = parse(argv)
    plan = Plan(
        nodes=arguments.nodes,
        waiting=arguments.waiting,
        fitting=arguments.fitting,
        freed=arguments.freed,
        delay=arguments.latency / 1000,
        interval=arguments.interval,
        steady=arguments.steady,
        limit=arguments.limit,
    )
    results: dict[str, Backlog] = {}
    with ExitStack() as ending:
        before = "" if arguments.only == FLOOD else arguments.before
        for version in versions(before, ending):
            if arguments.only in version.name:
                print(f"==> {version.name}", file=sys.stderr, flush=True)
                results[version.name] = measure(version, plan)
    if results:
        print(f"{plan.waiting} waiting pods, {plan.nodes} nodes, {arguments.latency} ms, {plan.steady:.0f} s steady\n")
        print(table.backlogs(results, plan.limit))
    if arguments.only in ("", FLOOD):
        print(f"==> {FLOOD}", file=sys.stderr, flush=True)
        few = replace(plan, nodes=arguments.flood_nodes)
        found = flood.measure(few, arguments.flood)
        print(f"\n{arguments.flood} pods of one namespace, {few.nodes} nodes, {arguments.latency} ms\n")
        print(table.flooded(found, plan.limit))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backlog", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=5000, help="pods that wait (%(default)s)")
    parser.add_argument("--fitting", type=int, default=30, help="pods that fit, in each of two parts (%(default)s)")
    parser.add_argument("--freed", type=int, default=20, help="cards that are freed (%(default)s)")
    parser.add_argument("--latency", type=int, default=10, metavar="MS", help="added to each call (%(default)s)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between pods that fit (%(default)s)")
    parser.add_argument("--steady", type=float, default=60.0, help="seconds in which nothing changes (%(default)s)")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for each part (%(default)s)")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help='earlier version (%(default)s); "": none')
    parser.add_argument("--flood", type=int, default=1000, metavar="PODS", help="pods of the flood (%(default)s)")
    parser.add_argument("--flood-nodes", type=int, default=200, metavar="NODES", help="nodes beside it (%(default)s)")
    only = f'run only the versions whose name contains this text; "{FLOOD}": only that part'
    parser.add_argument("--only", default="", help=only)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
