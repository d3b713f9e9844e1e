"""Where results are kept."""

from pathlib import Path

import pytest

from tests.suites.running import fresh


def test_the_folder_of_results_is_empty_and_valid_wherever_a_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build/old").mkdir(parents=True)
    assert fresh(Path("build")) == tmp_path / "build"
    assert list((tmp_path / "build").iterdir()) == []
