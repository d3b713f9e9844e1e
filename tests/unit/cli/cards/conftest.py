"""An operator and a small cluster."""

import pytest

from tests.unit.cli.cards.operator import Operator


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Operator:
    """Somebody who runs the commands for cards."""
    return Operator(monkeypatch, capsys)
