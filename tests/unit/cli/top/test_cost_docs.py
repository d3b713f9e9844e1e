"""docs/cost.md shows what the command and its example with OpenCost print."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.top import costs
from cli.top.question import Question
from cli.top.report import Listing, rendered
from cli.top.run import columns_of, read_prices
from tests.unit.cli.fleetview.views import NAMES, view_of
from tests.unit.cli.top.test_docs import of_the_page
from tests.unit.docs.consoles import commands
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/cost.md")
EXAMPLE = ROOT / "docs/examples/opencost"
PRICES = read_prices(str(EXAMPLE / "prices.yaml"))
WORKLOADS = {
    ("team-a", "train-0"): "job/train",
    ("team-a", "eval"): "job/eval",
    ("team-b", "nb"): "statefulset/nb",
    ("team-b", "chat-7d4"): "deployment/chat",
}


def billed(*, by_workload: bool = False) -> Listing:
    """The costs of the fleet of docs/top.md."""
    question = Question(NAMES, prices=PRICES, by_workload=by_workload)
    return costs.report_on(view_of(*of_the_page()), question, WORKLOADS if by_workload else {})


def told(ending: str) -> list[str]:
    """What the page's command that ends so prints."""
    (found,) = [lines for command, lines in commands(PAGE) if command.endswith(ending)]
    return found


def test_the_table_of_prices_is_that_of_the_example() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(shown) == yaml.safe_load((EXAMPLE / "prices.yaml").read_text())


def test_the_tables_of_the_page_are_what_is_printed() -> None:
    for by_workload, ending in ((False, "--prices prices.yaml"), (True, "--by workload")):
        columns = columns_of("costs", Question(NAMES, by_workload=by_workload))
        assert rendered(billed(by_workload=by_workload), columns, "table").splitlines() == told(ending)


def test_the_example_joins_what_the_command_prints_with_what_opencost_knows() -> None:
    printed: Any = json.loads(rendered(billed(), costs.COLUMNS, "json"))
    assert json.loads((EXAMPLE / "costs.json").read_text()) == printed
    files = [str(EXAMPLE / name) for name in ("allocation.json", "costs.json")]
    argv = [sys.executable, str(EXAMPLE / "join.py"), *files, "--hours", "24"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == told("--hours 24")


def test_opencosts_names_add_up_as_it_does() -> None:
    """Workloads and idle cards cost what all cards cost, and each total is the sum of its parts."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from join import joined  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(EXAMPLE))
    read = [json.loads(Path(EXAMPLE / name).read_text()) for name in ("allocation.json", "costs.json")]
    found = joined(*read, 24)
    assert sum(one["gpuCost"] for one in found.values()) == pytest.approx(24 * (4 * 2.5 + 2 * 0.35))
    assert sum(one["gpuHours"] for one in found.values()) == pytest.approx(24 * 6)
    assert all(one["totalCost"] == one["gpuCost"] + one["otherCost"] for one in found.values())
    assert found["web"] == {"gpuHours": 0.0, "gpuCost": 0.0, "otherCost": 2.0, "totalCost": 2.0}
