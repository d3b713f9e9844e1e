"""The command starts quickly, and ends quietly when nobody reads on."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from cli.explain import run as explain
from tests.unit.cli.cluster import claim, listed, slices

HEAVY = ("controller", "grpc", "kubernetes", "pydantic", "simulation", "yaml")


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["simulate", "--help"],
        ["explain", "--help"],
        ["inventory", "--help"],
        ["doctor", "--help"],
        ["convert", "--help"],
        ["top", "--help"],
        ["top", "claims", "--help"],
        ["uninstall", "--help"],
        ["cordon", "--help"],
        ["drain", "--help"],
        ["completion", "--help"],
    ],
)
def test_help_loads_nothing_that_takes_long(argv: list[str]) -> None:
    code = (
        "import sys\nfrom cli.__main__ import main\n"
        f"try: main({argv!r})\nexcept SystemExit as end: assert not end.code\n"
        f"sys.exit(', '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "usage: lode" in ended.stdout


NO_SIMULATION = "import sys\nsys.modules['simulation'] = None\n"
"""Makes Python behave as where the package is not installed, as in the cluster image."""
IMPORT_ALL = """
import importlib, pkgutil
for package in ("cli", "controller", "driver", "kubeletplugin", "memoryapi"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if module.name != "cli.demo":
            importlib.import_module(module.name)
"""


def test_the_packages_of_the_cluster_image_import_without_the_simulation() -> None:
    ended = subprocess.run([sys.executable, "-c", NO_SIMULATION + IMPORT_ALL], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        "controller",
        "kubeletplugin",
        "release",
        "simulate",
        "explain",
        "inventory",
        "doctor",
        "top",
        "uninstall",
        "cordon",
        "uncordon",
        "drain",
        "reset",
        "handover",
    ],
)
def test_a_command_of_the_cluster_image_runs_without_the_simulation(command: str) -> None:
    code = f"{NO_SIMULATION}from cli.__main__ import main\nmain([{command!r}, '--help'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"usage: lode {command}" in ended.stdout


def test_the_demo_says_in_one_line_that_the_simulation_is_not_installed_and_what_to_do() -> None:
    code = f"{NO_SIMULATION}from cli.__main__ import main\nsys.exit(main(['demo']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert "simulation is not installed" in line
    assert "make demo" in line


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "many.json").write_text(listed(*slices("g", "t4x2"), *(claim(f"c{i}") for i in range(600))))
    argv = [sys.executable, "-m", "cli", "simulate", "-f", str(tmp_path / "many.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        told = running.stderr.read()
    assert "Traceback" not in told
    assert "Broken pipe" not in told
    assert running.returncode == 141


@pytest.mark.parametrize("content", ["", "a: [", "hello", "- a", "kind: Config\n"])
def test_a_kubeconfig_that_cannot_be_used_is_told_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    for argv in (["explain", "p"], ["simulate", "--live"]):
        assert lode([*argv, "--kubeconfig", str(path)]) == 2
        told = capsys.readouterr().err
        assert str(path) in told
        assert "set $KUBECONFIG to another file" in told


@pytest.mark.parametrize("command", [["doctor"], ["explain", "p"], ["uninstall"]])
def test_without_a_kubeconfig_a_command_says_that_there_is_none_and_how_to_name_one(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    assert lode([*command, "--kubeconfig", str(path)]) == 2
    assert f"no kubeconfig: {path} does not exist; set $KUBECONFIG or --kubeconfig" in capsys.readouterr().err


def test_every_command_for_a_cluster_takes_a_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config"
    path.write_text(
        "{kind: Config, current-context: one, contexts: [{name: one, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    for command in (
        ["explain", "p"],
        ["simulate", "--live"],
        ["doctor"],
        ["uninstall"],
        ["cordon", "n"],
        ["drain", "n"],
        ["handover", "n"],
    ):
        assert lode(["--context", "nowhere", "--kubeconfig", str(path), *command]) == 2
        assert "nowhere" in capsys.readouterr().err


def test_options_that_kubectl_takes_before_the_verb_may_stand_there(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[argparse.Namespace] = []

    def explained(arguments: argparse.Namespace) -> int:
        got.append(arguments)
        return 0

    monkeypatch.setattr(explain, "run", explained)
    status = lode(["-n", "team-a", "--context=east", "explain", "pod/train", "-o", "json"])
    (asked,) = got
    assert (status, asked.what, asked.namespace, asked.context, asked.output) == (
        0,
        "pod/train",
        "team-a",
        "east",
        "json",
    )
