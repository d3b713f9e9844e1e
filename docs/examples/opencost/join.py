"""Joins the costs that OpenCost knows with those of cards from `lode top costs`, by namespace.

    python join.py ALLOCATION COSTS --hours 24

ALLOCATION is the answer of OpenCost's /allocation/compute?window=24h&aggregate=namespace&includeIdle=true, and COSTS
that of `kubectl lode top costs -A --prices prices.yaml -o json`. What OpenCost says of GPUs is replaced: it counts
requests for extended resources, of which pods with claims have none.
"""

import argparse
import json
from pathlib import Path

COLUMNS = ("NAMESPACE", "GPU-HOURS", "GPU-COST", "OTHER-COST", "TOTAL-COST")


def joined(allocation: dict, costs: dict, hours: float) -> dict[str, dict[str, float]]:
    """Return gpuHours, gpuCost, otherCost and totalCost of each namespace, with the names of OpenCost."""
    known = {name: one for window in allocation["data"] for name, one in (window or {}).items()}
    cards = {one["namespace"]: one for one in costs["items"]}
    found = {}
    for name in sorted({*known, *cards}):
        opencost, lode = known.get(name, {}), cards.get(name, {})
        other = opencost.get("totalCost", 0.0) - opencost.get("gpuCost", 0.0)
        gpu = lode.get("costPerHour", 0.0) * hours
        found[name] = {
            "gpuHours": lode.get("cards", 0.0) * hours,
            "gpuCost": gpu,
            "otherCost": other,
            "totalCost": other + gpu,
        }
    return found


def main() -> None:
    """Print a line for each namespace."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("allocation", type=Path)
    parser.add_argument("costs", type=Path)
    parser.add_argument("--hours", type=float, required=True, help="of OpenCost's window")
    arguments = parser.parse_args()
    read = (json.loads(path.read_text()) for path in (arguments.allocation, arguments.costs))
    print("{:<12}{:>10}{:>10}{:>12}{:>12}".format(*COLUMNS))
    for name, one in joined(*read, arguments.hours).items():
        print("{:<12}{:>10.1f}{:>10.2f}{:>12.2f}{:>12.2f}".format(name, *one.values()))


if __name__ == "__main__":
    main()
