"""Alerts and recording rules: each has what belongs to it, in every form in which it is shipped."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.monitoring import MANIFESTS, files, rules_text
from tests.unit.docs.pages import ROOT, page

GROUPS = yaml.safe_load(rules_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
NAMES = [rule["alert"] for rule in ALERTS]
RECORDS = [rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule]
OF_OTHERS = {"DCGM_FI_DEV_GPU_UTIL", "npu_chip_info_utilization", "up"}
CASES = yaml.safe_load((ROOT / "tests/data/monitoring/alerts.yaml").read_text())


def test_the_object_for_the_operator_has_the_rules() -> None:
    for name, content in files().items():
        assert (MANIFESTS / name).read_text() == content, "run `make chart`"
        assert yaml.safe_load(content)["spec"]["groups"] == GROUPS
    assert (ROOT / "charts/lode/files/rules.yaml").read_text() == rules_text(), "run `make chart`"


@pytest.mark.parametrize("rule", ALERTS, ids=NAMES)
def test_an_alert_says_what_how_bad_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
    text = page(rule["annotations"]["runbook_url"])
    assert text.startswith(f"# {rule['alert']}\n\nSeverity: {rule['labels']['severity']}")
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["What it means for pods", "Where to look", "What to do"]


def test_each_alert_is_listed_with_its_severity_and_has_cases_that_fire_and_that_do_not() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", page("docs/alerts.md"), re.MULTILINE)
    assert dict(listed) == {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}
    assert {file.stem for file in Path(ROOT / "docs/runbooks").glob("*.md")} == set(NAMES)
    assert list(CASES) == NAMES
    assert all(case["fires"] and case["silent"] for case in CASES.values())


def test_each_record_is_listed() -> None:
    assert re.findall(r"^\| `(lode:[\w:]+)` \|", page("docs/alerts.md"), re.MULTILINE) == RECORDS


def test_rules_ask_for_series_that_exist() -> None:
    known = set(re.findall(r"^\| `(lode_\w+)` \|", page("docs/metrics.md"), re.MULTILINE)) | OF_OTHERS | set(RECORDS)
    for group in GROUPS:
        for rule in group["rules"]:
            asked = set(re.findall(r"lode[_:][\w:]+|DCGM_\w+|npu_\w+|\bup\b", re.sub(r'"[^"]*"', "", rule["expr"])))
            assert asked, rule
            assert asked <= known, f"{rule}: {asked - known}"


def test_the_chart_scrapes_as_the_component_does() -> None:
    component = list(yaml.safe_load_all((MANIFESTS / "monitoring/podmonitors.yaml").read_text()))
    chart = (ROOT / "charts/lode/templates/podmonitor.yaml").read_text()
    for monitor in component:
        for field in ("jobLabel", "honorLabels", "scrapeTimeout", "relabelings"):
            text = yaml.safe_dump(monitor["spec"])
            assert field not in text or f"{field}:" in chart
    (relabelings,) = re.findall(r"relabelings:\n((?:    .*\n)+?)    \{\{", chart)
    assert yaml.safe_load(relabelings) == component[0]["spec"]["podMetricsEndpoints"][0]["relabelings"]
