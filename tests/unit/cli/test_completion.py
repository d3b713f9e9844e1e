"""Shells and kubectl complete every command for people, with its options, from the parsers that the commands use."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli import completion
from cli.__main__ import main as lode
from cli.commands import COMMANDS, SHELLS

IN_THE_CLUSTER = {"controller", "kubeletplugin", "release", "demo"}
"""Programs that nobody calls by hand on a workstation, and one without options."""


COMPLETED = [name for name, command in COMMANDS.items() if command.parser]


def test_every_command_for_people_can_be_completed() -> None:
    assert set(COMPLETED) == set(COMMANDS) - IN_THE_CLUSTER
    assert [word for word, _ in completion.candidates([], "")[0]] == COMPLETED


@pytest.mark.parametrize("command", COMPLETED)
def test_the_parser_of_a_command_is_the_one_that_it_uses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is offered as an option is in the help of the command, and the other way round."""
    with pytest.raises(SystemExit):
        lode([command, "--help"])
    shown = capsys.readouterr().out
    offered, _ = completion.candidates([command], "-")
    assert [word for word, _ in offered if word not in shown] == []


@pytest.mark.parametrize(
    ("words", "current", "offered"),
    [
        ([], "ex", ["explain"]),
        ([], "dr", ["drain"]),
        (["top"], "", ["nodes", "cards", "claims", "namespaces", "gangs", "costs"]),
        (["top", "nodes"], "--no", ["--no-headers"]),
        (["top", "nodes", "-o"], "", ["table", "wide", "json", "yaml"]),
        (["top", "nodes", "-o", "json"], "--sort", ["--sort-by"]),
        (["top", "nodes", "--watch"], "--no", ["--no-headers"]),
        (["doctor"], "", ["cluster", "node"]),
        (["convert", "--source"], "h", ["hami"]),
        (["drain", "node-1/gpu-3"], "--time", ["--timeout"]),
        (["completion"], "", ["bash", "zsh", "fish"]),
        (["unknown"], "x", []),
        (["explain", "-n"], "", []),
    ],
)
def test_what_may_come_next_is_offered(words: list[str], current: str, offered: list[str]) -> None:
    found, files = completion.candidates(words, current)
    assert [word for word, _ in found] == offered
    assert not files


@pytest.mark.parametrize("words", [["simulate", "-f"], ["explain", "--settings"], ["top", "costs", "--prices"]])
def test_where_a_file_is_wanted_files_are_offered(words: list[str]) -> None:
    assert completion.candidates(words, "") == ([], True)


def test_kubectl_gets_words_with_help_and_says_whether_files_may_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-lode", "top", "na"])
    assert completion.kubectl() == 0
    assert capsys.readouterr().out.splitlines() == [
        "namespaces\twhat the claims of each namespace hold, what its quotas allow, and how many pods wait",
        ":4",
    ]
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-lode", "simulate", "-f", ""])
    completion.kubectl()
    assert capsys.readouterr().out == ":0\n"
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-lode"])
    completion.kubectl()
    assert "explain\t" in capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_the_shell_takes_it(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lode(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMPLETED)
    assert "--no-headers" in script or "no-headers" in script
    (tmp_path / "script").write_text(script)
    if program := shutil.which(shell):
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


def test_bash_completes_with_the_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The function that the script registers is called as bash calls it."""
    lode(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    ask = (
        'source "$1"; function_of=$(complete -p lode | sed -E "s/.*-F ([^ ]+) .*/\\1/"); '
        'COMP_WORDS=(lode top ""); COMP_CWORD=2; $function_of; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    argv = ["bash", "-c", ask, "bash", str(tmp_path / "script")]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert {"nodes", "cards", "costs"} <= set(ended.stdout.split())


def test_without_the_library_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert lode(["completion", "bash"]) == 2
    assert "install Lode's command as README says" in capsys.readouterr().err
