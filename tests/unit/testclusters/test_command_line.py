"""The command line of testclusters, as far as it can run without building anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from testclusters.programs import KUBERNETES_VERSIONS

ROOT = Path(__file__).parents[3]
CALLS = sorted(
    {
        tuple(call.split("#")[0].split('"')[0].strip(" )").split())
        for call in re.findall(r"python -m testclusters (\w.*)", (ROOT / "testclusters" / "README.md").read_text())
    }
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "testclusters", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def words(call: tuple[str, ...]) -> tuple[str, ...]:
    """The subcommands at the start of a call."""
    return call[: 2 if call[0] == "kind" else 1]


@pytest.mark.parametrize("command", sorted({words(call) for call in CALLS}), ids=" ".join)
def test_a_command_that_the_readme_names_exists(command: tuple[str, ...]) -> None:
    assert run(*command, "--help").returncode == 0


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_an_option_that_the_readme_names_exists(call: tuple[str, ...]) -> None:
    usage = run(*words(call), "--help").stdout
    own = call[: call.index("--")] if "--" in call else call
    assert {option for option in own if option.startswith("--")} <= set(re.findall(r"--[\w-]+", usage))


def test_the_readme_builds_a_version_that_exists() -> None:
    versions = {call[call.index("--kubernetes") + 1] for call in CALLS if "--kubernetes" in call}
    assert versions
    assert versions <= set(KUBERNETES_VERSIONS)


def test_a_program_that_does_not_exist_is_named() -> None:
    done = run("build", "kind", "no-such")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such program: no-such" in done.stderr
