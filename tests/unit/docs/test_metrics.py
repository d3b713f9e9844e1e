"""docs/metrics.md lists every series, and nothing else."""

import re
from collections import Counter

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
    listed = Counter(re.findall(r"^\| `(lode_\w+)` \|", PAGE, re.MULTILINE))
    served = Counter(metrics_in_code() | FAMILIES.keys() | OWN.keys() | CARD_FAMILIES.keys())
    missing, obsolete = sorted(served - listed), sorted(listed - served)
    assert not missing, f"add rows for {missing} to the tables of docs/metrics.md"
    assert not obsolete, (
        f"remove a row of each of {obsolete} from docs/metrics.md: no program serves it, or it is twice"
    )
