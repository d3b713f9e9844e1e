"""docs/metrics.md lists every series, and nothing else."""

import re

from controller.census.text import FAMILIES
from kubeletplugin.card_metrics import CARD_FAMILIES
from kubeletplugin.share_usage import OWN
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/metrics.md")


def metrics_in_code() -> set[str]:
    created = re.compile(r'\.(counter|gauge|histogram)\(\s*"(\w+)"')
    return {
        f"lode_{name}{'_total' if kind == 'counter' else ''}"
        for package in ("driver", "controller", "kubeletplugin")
        for path in (ROOT / package).rglob("*.py")
        for kind, name in created.findall(path.read_text())
    }


def test_exactly_the_metrics_that_exist_are_listed() -> None:
    listed = re.findall(r"^\| `(lode_\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(metrics_in_code() | FAMILIES.keys() | OWN.keys() | CARD_FAMILIES.keys())
