"""docs/conformance.md lists the suites and the cases of NVIDIA's driver, docs/ai-conformance.md each requirement."""

import ast
import re
from typing import Any

import pytest
import yaml

from tests.suites.running import ACCELERATORS, SUITES
from tests.unit.docs.pages import ROOT, page

CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests/data/nvidia-dra/cases.yaml").read_text())
SUMMARY, CASE_HEAD = "| suite | passed without Lode |", "| file | case | result | difference |"
PLAYED = {"objects", "attributes"}
REQUIREMENTS = """
    driver_runtime_management gpu_sharing virtualized_accelerator ai_inference advanced_inference_ingress
    high_performance_networking disaggregated_inference gang_scheduling cluster_autoscaling pod_autoscaling
    accelerator_metrics ai_service_metrics secure_accelerator_access robust_controller
""".split()
"""Of the checklist for Kubernetes 1.36."""


def rows(text: str, head: str) -> list[list[str]]:
    """The rows of the table that begins with ``head``, cell by cell."""
    table = text[text.index(head) :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_the_cases_of_nvidias_driver_are_those_of_the_page_with_results_and_differences() -> None:
    told = [[*cells, *[""] * (4 - len(cells))] for cells in rows(page("docs/conformance.md"), CASE_HEAD)]
    assert told == [
        [f"`{case['file']}`", case["case"], case["result"], case.get("difference", "").strip()] for case in CASES
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_case_is_played_or_names_the_test_that_shows_it_and_says_its_difference(case: dict[str, Any]) -> None:
    assert ("difference" in case) == (case["result"] != "passes")
    assert bool(PLAYED & case.keys()) + ("shown" in case) == (case["result"] != "cannot")
    if "shown" in case:
        path, _, name = case["shown"].partition("::")
        nodes = ast.walk(ast.parse((ROOT / path).read_text()))
        assert name in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_suite_has_its_table() -> None:
    text = page("docs/conformance.md")
    assert [cells[0] for cells in rows(text, SUMMARY)] == [name for name in SUITES if name != ACCELERATORS]
    assert f"### {ACCELERATORS.capitalize()}" in text


def test_every_requirement_of_the_checklist_is_answered_once() -> None:
    answers = rows(page("docs/ai-conformance.md"), "| requirement | level | with Lode |")
    told = [name for cells in answers for name in re.findall(r"`(\w+)`", cells[0])]
    assert sorted(told) == sorted(REQUIREMENTS)
