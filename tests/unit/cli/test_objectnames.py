"""Names of objects are offered where they may stand, soon, and without a word if the cluster cannot be read."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cli import completion, live
from cli.__main__ import main as lode
from cli.commands import COMMANDS
from cli.completion import MOST, names_soon
from cli.wanted import FORMS
from driver.kube.api import NAMESPACES, PODS
from tests.unit.cli.cluster import claim, pod
from tests.unit.cli.user import User, add


def offered(*words: str) -> list[str]:
    """What is offered in the place of the last word."""
    wanted = completion.wanted_objects(words[:-1], words[-1])
    return [*names_soon(wanted, 60)] if wanted else []


@pytest.fixture
def filled(cluster: User) -> User:
    """The node ``g`` with two cards, two pods and a claim, and a pod in another namespace."""
    cluster.api.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    for name in ("train", "test"):
        add(cluster, pod(name))
    add(cluster, claim("data"))
    cluster.api.create(PODS, pod("far"), "team-a")
    return cluster


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["top", "nodes", ""], ["g"]),
        (["top", "nodes", "x"], []),
        (["top", "cards", ""], ["g"]),
        (["drain", "g/"], ["g/gpu-0", "g/gpu-1"]),
        (["top", "cards", "--context", "x", "g/gpu-1"], ["g/gpu-1"]),
        (["top", "cards", "--driver=other", "g/"], []),
        (["handover", "g"], ["g"]),
        (["top", "claims", ""], ["data"]),
        (["top", "claims", "-n", "team-a", ""], []),
        (["top", "claims", "-n", "team-a", "-A", ""], ["data"]),
        (["top", "namespaces", "d"], ["default"]),
        (["explain", "-n", "t"], ["team-a"]),
        (["explain", "--namespace=team-a", "pod/"], ["pod/far"]),
        (["explain", "pod/t"], ["pod/test", "pod/train"]),
        (["explain", "claim/"], ["claim/data"]),
        (["explain", "card/g/gpu-0"], ["card/g/gpu-0"]),
        (["explain", "namespace/t"], ["namespace/team-a"]),
        (["top", "nodes", "--sort-by", ""], []),
        (["top", "nodes", "-"], []),
    ],
    ids=" ".join,
)
def test_names_are_offered_where_they_may_stand(filled: User, words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_the_cluster_is_not_asked_before_it_is_said_what_is_meant(filled: User) -> None:
    filled.asked.clear()
    assert offered("explain", "") == ["card/", "claim/", "namespace/", "pod/"]
    assert offered("explain", "po") == ["pod/"]
    assert not filled.asked


def test_whatever_goes_wrong_nothing_is_said(filled: User, capsys: pytest.CaptureFixture[str]) -> None:
    assert offered("top", "--kubeconfig", "broken", "nodes", "") == []
    filled.error = ValueError("odd")
    assert offered("top", "nodes", "") == []
    assert capsys.readouterr() == ("", "")


def test_who_completes_a_word_waits_for_so_long_at_most_and_gets_so_much(
    filled: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = threading.Event()

    def slowly(*_: object, **__: object) -> object:
        for number in range(2 * MOST):
            yield {"metadata": {"name": f"n-{number}"}}
        hang.wait(60)

    monkeypatch.setattr(live, "each", slowly)
    assert len(offered("top", "nodes", "")) == MOST
    began = time.monotonic()
    wanted = completion.wanted_objects(["top", "nodes"], "x")
    assert wanted
    assert names_soon(wanted, 0.1) == []
    assert time.monotonic() - began < 30
    hang.set()


def test_kubectl_is_told_names_and_whether_the_word_goes_on(
    filled: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, printed in ((["top", "cards", "g/"], "g/gpu-0\ng/gpu-1\n:4\n"), (["explain", "p"], "pod/\n:6\n")):
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-lode", *words])
        completion.kubectl()
        assert capsys.readouterr().out == printed


def test_commands_take_every_form_of_names() -> None:
    shown = " ".join(word for command in COMMANDS if COMMANDS[command].parser for word in _help(command))
    assert [form for form in FORMS if form not in shown] == []


def _help(command: str) -> list[str]:
    parser = completion._commands_of(completion.command_tree())[command]
    below = completion._commands_of(parser).values()
    return [one.format_help() for one in (parser, *below)]


BASH = """
source "$1"; function_of=$(complete -p lode | sed -E "s/.*-F ([^ ]+) .*/\\1/")
COMP_WORDS=(lode top cards "g/"); COMP_CWORD=3; $function_of; printf "%s\n" "${COMPREPLY[@]}"
COMP_WORDS=(lode explain -n "te"); COMP_CWORD=3; $function_of; printf "%s\n" "${COMPREPLY[@]}"
"""
FISH = """
source $argv[1]; complete -C "lode top cards g/"; complete -C "lode explain -n te"
"""


ZSH = """
compdef() { }; compadd() { print -rl -- ${(P)2} }; eval "$(<$1)"
LBUFFER="lode top cards g/"; _lode_names
LBUFFER="lode explain -n te"; _lode_names
"""


SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_asks_what_kubectl_asks(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    lode(["completion", shell])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = tmp_path / "kubectl_complete-lode"
    asked.write_text('#!/bin/sh\nlast=; for last; do :; done\nprintf "%s\\thelp\\n" "${last}$#" "${last}x/"; echo :4\n')
    asked.chmod(0o755)
    argv = [program, "-c", SCRIPTS[shell], *([] if shell == "fish" else [shell]), str(tmp_path / "script")]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    assert [line.partition("\t")[0] for line in ended.stdout.splitlines()] == ["g/3", "te3"]
