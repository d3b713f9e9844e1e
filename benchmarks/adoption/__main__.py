"""Pods with templates on demand that come and go at an even pace: their latency, and templates that are left.

    make bench-adoption                                        # about eight minutes
    python -m benchmarks.adoption --nodes 100 --minutes 1 --per-minute 300

A real control plane, without kubelets: a pod counts as running when it is bound, and is deleted 20 s later. Each
namespace names other templates every minute, so that templates are made and removed all the time. The controller keeps
an unused template for 30 s instead of ten minutes. Every pod asks for one to four whole cards by the name of a template
that did not exist before.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.adoption.measure import MARGIN_SECONDS, Outcome, measure
from benchmarks.adoption.scenario import Scenario
from benchmarks.allocation.table import lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the scenario and print its table."""
    chosen = Scenario()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adoption", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=chosen.nodes)
    parser.add_argument("--minutes", type=float, default=chosen.minutes)
    parser.add_argument("--per-minute", type=int, default=chosen.per_minute)
    arguments = parser.parse_args(argv)
    scenario = Scenario(arguments.nodes, arguments.minutes, arguments.per_minute)
    print(table(scenario, measure(scenario)))
    return 0


def table(scenario: Scenario, outcome: Outcome) -> str:
    """One row: pods, their latency, templates, and the verdict."""
    header = [
        "nodes",
        "pods",
        "bound",
        "per minute",
        "p50 s",
        "p99 s",
        "templates made",
        "most",
        "unused s",
        "left",
        "bar",
    ]
    bound = len(outcome.latencies)
    latency = [f"{outcome.percentile(percent):.2f}" if bound else "-" for percent in (50, 99)]
    pods = [str(outcome.wanted), str(bound), f"{outcome.per_minute:.0f}", *latency]
    templates = [str(outcome.made), str(outcome.most), f"{outcome.longest_unused:.0f}", str(outcome.left)]
    return lines(header, [[str(scenario.nodes), *pods, *templates, verdict(scenario, outcome)]])


def verdict(scenario: Scenario, outcome: Outcome) -> str:
    """``met`` if every pod was bound, at the pace at which they came, and no template outlived its pods for long."""
    if len(outcome.latencies) < outcome.wanted:
        return f"missed: {outcome.wanted - len(outcome.latencies)} pods not bound"
    if outcome.left:
        return f"missed: {outcome.left} templates left"
    if outcome.longest_unused > scenario.unused_seconds + MARGIN_SECONDS:
        return f"missed: a template was kept for {outcome.longest_unused:.0f} s"
    return "met" if outcome.per_minute >= 0.95 * scenario.per_minute else "missed: too slow"


if __name__ == "__main__":
    sys.exit(main())
