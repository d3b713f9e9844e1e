"""kubectl completes its plugin: it runs kubectl_complete-lode and offers what that prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testclusters.controlplane import ControlPlane
from testclusters.programs import kubectl_program
from tests.unit.docs.pages import ROOT

_RUN = '#!/bin/sh\nexec {python} -c "import sys, {module} as module; sys.exit(module.{call})" "$@"\n'


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the plugin and what completes it, which waits for names longer than a user would."""
    for name, module, call in (
        ("kubectl-lode", "cli.__main__", "main()"),
        ("kubectl_complete-lode", "cli.completion", "kubectl(60)"),
    ):
        program = tmp_path / name
        program.write_text(_RUN.format(python=sys.executable, module=module, call=call))
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
    assert completed(path, *words) == offered


def completed(path: str, *words: str, kubeconfig: str = "/nowhere") -> list[str]:
    """What kubectl offers in the place of the last word."""
    argv = [str(kubectl_program()), "__complete", "lode", *words]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "KUBECONFIG": kubeconfig}
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    return [line.partition("\t")[0] for line in ended.stdout.splitlines() if not line.startswith(":")]


def test_kubectl_offers_names_of_objects(path: str, control_plane: ControlPlane) -> None:
    assert completed(path, "explain", "-n", "d") == [], "there is no cluster"
    kubeconfig = str(control_plane.kubeconfig(delayed=False))
    assert completed(path, "explain", "-n", "d", kubeconfig=kubeconfig) == ["default"]
