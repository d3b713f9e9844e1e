"""kubectl completes its plugin: it runs kubectl_complete-lode and offers what that prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testclusters import kubectl_program
from tests.unit.docs.pages import ROOT

_RUN = '#!/bin/sh\nexec {python} -c "import sys; from {module} import {function}; sys.exit({function}())" "$@"\n'


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the plugin and what completes it."""
    for name, module, function in (
        ("kubectl-lode", "cli.__main__", "main"),
        ("kubectl_complete-lode", "cli.completion", "kubectl"),
    ):
        program = tmp_path / name
        program.write_text(_RUN.format(python=sys.executable, module=module, function=function))
        program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["top", "n"], ["nodes", "namespaces"]),
        (["top", "cards", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["uncord"], ["uncordon"]),
    ],
)
def test_kubectl_offers_what_may_come_next(path: str, words: list[str], offered: list[str]) -> None:
    argv = [str(kubectl_program()), "__complete", "lode", *words]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert [line.partition("\t")[0] for line in ended.stdout.splitlines() if not line.startswith(":")] == offered
