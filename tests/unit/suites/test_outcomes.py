"""What the reports of ginkgo and ``go test`` say, and what counts as a difference."""

import json
from typing import Any

from tests.suites.outcomes import FAILED, PASSED, SKIPPED, Comparison, Outcome, details, of_ginkgo, of_go_test


def spec(text: str, state: str, message: str = "", kind: str = "It") -> dict[str, Any]:
    failure = {"Failure": {"Message": message}} if message else {}
    return {"ContainerHierarchyTexts": ["pods"], "LeafNodeText": text, "LeafNodeType": kind, "State": state, **failure}


def test_each_test_of_a_report_of_ginkgo_has_its_state_and_the_first_line_of_its_reason() -> None:
    specs = [
        spec("run", "passed"),
        spec("end", "failed", "FATAL ERROR:\n\n  expected 1\nto equal 2"),
        spec("hang", "timedout", "took too long"),
        spec("burst", "panicked"),
        spec("need more", "skipped", "needs two nodes"),
    ]
    assert of_ginkgo([{"SpecReports": specs}]) == {
        "pods run": Outcome(PASSED),
        "pods end": Outcome(FAILED, "expected 1"),
        "pods hang": Outcome(FAILED, "took too long"),
        "pods burst": Outcome(FAILED),
        "pods need more": Outcome(SKIPPED, "needs two nodes"),
    }


def test_a_test_that_was_not_chosen_is_left_out() -> None:
    assert of_ginkgo([{"SpecReports": [spec("run", "skipped")]}, {"SpecReports": None}]) == {}


def test_what_fails_before_all_tests_is_told() -> None:
    setup = spec("", "failed", "no node", kind="BeforeSuite")
    assert of_ginkgo([{"SpecReports": [setup, spec("", "passed", kind="AfterSuite")]}]) == {
        "BeforeSuite": Outcome(FAILED, "no node")
    }


def events(*actions: tuple[str, str], **printed: str) -> list[str]:
    output = [{"Action": "output", "Test": name.replace("_", "/"), "Output": text} for name, text in printed.items()]
    return [json.dumps(event) for event in (*output, *({"Action": action, "Test": name} for name, action in actions))]


def test_each_part_of_a_test_of_go_is_one_and_the_whole_is_none() -> None:
    lines = events(("T/a", "pass"), ("T/b", "fail"), ("T", "fail"), ("U", "skip"), T_b="saw too much\n")
    assert of_go_test([*lines, "no event", json.dumps({"Action": "fail"})]) == {
        "T/a": Outcome(PASSED),
        "T/b": Outcome(FAILED, "saw too much"),
        "U": Outcome(SKIPPED),
    }


def test_a_test_of_go_that_fails_beside_its_parts_is_one() -> None:
    assert of_go_test(events(("T/a", "pass"), ("T", "fail")))["T"].state == FAILED


WITHOUT = {"a": Outcome(PASSED), "b": Outcome(FAILED, "x | y"), "c": Outcome(SKIPPED, "no"), "d": Outcome(PASSED)}


def test_the_same_states_are_no_difference_whatever_the_reasons() -> None:
    with_lode = {**WITHOUT, "b": Outcome(FAILED, "other")}
    comparison = Comparison("s", WITHOUT, with_lode)
    assert comparison.differing == []
    assert comparison.row() == "| s | 2 | 1 | 1 | 2 | 1 | 1 | 0 |"
    assert details(comparison) == "| fails both times | with |\n|---|---|\n| b | other |"


def test_another_state_and_a_test_of_one_run_alone_are_differences_with_their_reasons() -> None:
    comparison = Comparison("s", WITHOUT, {"a": Outcome(FAILED, "p | q"), "b": Outcome(PASSED), "c": WITHOUT["c"]})
    assert comparison.differing == ["a", "b", "d"]
    assert details(comparison).splitlines()[2:] == [
        "| a | passed | failed: p \\| q |",
        "| b | failed: x \\| y | passed |",
        "| d | passed | not run |",
    ]
