"""What is printed of the suites, and what is left out by name."""

from pathlib import Path

import pytest

from tests.suites import accelerators
from tests.suites.__main__ import report
from tests.suites.outcomes import FAILED, HEAD, PASSED, Comparison, NotPlayed, Outcome
from tests.suites.running import ACCELERATORS, Played

NOTHING = Played((), {}, ())


def test_the_report_has_a_row_for_each_suite_its_differences_and_what_could_not_be_built() -> None:
    comparison = Comparison("devices", {"a": Outcome(PASSED)}, {"a": Outcome(FAILED, "late")})
    text = report(Played([comparison], {}, ["nginx:1"]), ["devices"])
    assert text.startswith(f"{HEAD}\n| devices | 1 | 0 | 0 | 0 | 1 | 0 | 1 |")
    assert "| a | passed | failed: late |" in text
    assert text.endswith("Images that cannot be built here: nginx:1")


def test_tests_of_accelerators_have_a_row_each() -> None:
    played = Played((), {"T/b": Outcome(FAILED, "saw it"), "T/a": Outcome(PASSED)}, ())
    assert report(played, [ACCELERATORS]).splitlines()[2:] == ["| T/a | passed |", "| T/b | failed: saw it |"]


def test_a_suite_whose_checkout_is_not_at_hand_is_left_out_by_name() -> None:
    assert report(NOTHING, [ACCELERATORS]) == "accelerators: not played: LODE_AI_CONFORMANCE names no checkout"
    assert report(NOTHING, ["devices"]) == ""


def test_the_checkout_is_the_folder_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(accelerators.VARIABLE, raising=False)
    assert accelerators.checkout() is None
    monkeypatch.setenv(accelerators.VARIABLE, str(tmp_path))
    with pytest.raises(NotPlayed, match=r"is no checkout of kubernetes-sigs/ai-conformance"):
        accelerators.checkout()
    (tmp_path / "go.mod").touch()
    assert accelerators.checkout() == tmp_path
