"""What krew installs: the manifest has the shape that krew takes, and the plugin makes its environment once."""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.docs.pages import ROOT

HOME = "https://example.com/lode"
URI = "https://example.com/v1/kubectl-lode.tar.gz"
FAKE_PYTHON = """\
#!/bin/sh
echo "$@" >> {log}
case "$1 $2" in
"-c import"*) exit {old} ;;
"-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-m pip") exit {fails} ;;
esac
"""
"""Stands for Python and for that of the environment which it makes."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a release publishes."""
    folder = tmp_path_factory.mktemp("krew")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run([ROOT / ".ci/krew", HOME, URI, folder], check=True, env={**os.environ, "PATH": path})
    return folder


@pytest.fixture
def plugin(built: Path, tmp_path: Path) -> Path:
    """The plugin in the folder into which krew unpacks the archive."""
    (tmp_path / "store").mkdir()
    subprocess.run(["tar", "-xzf", built / "kubectl-lode.tar.gz", "-C", tmp_path / "store"], check=True)
    (tmp_path / "kubectl-lode").symlink_to(tmp_path / "store/kubectl-lode")  # as krew does
    return tmp_path / "kubectl-lode"


def test_the_manifest_has_what_krew_asks_for(built: Path) -> None:
    manifest: Any = yaml.safe_load((built / "lode.yaml").read_text())
    spec = manifest["spec"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert manifest["metadata"] == {"name": "lode"}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert spec["version"] == f"v{version}"
    assert set(spec) == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert spec["homepage"] == HOME
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    (platform,) = spec["platforms"]
    assert set(platform) == {"selector", "uri", "sha256", "bin"}
    assert platform["uri"] == URI
    assert platform["sha256"] == hashlib.sha256((built / "kubectl-lode.tar.gz").read_bytes()).hexdigest()


def test_the_archive_has_the_plugin_the_wheel_and_the_license(built: Path) -> None:
    with tarfile.open(built / "kubectl-lode.tar.gz") as archive:
        members = {Path(member.name).name: member for member in archive if member.isfile()}
    (wheel,) = [name for name in members if name.endswith(".whl")]
    assert set(members) == {"kubectl-lode", "LICENSE", wheel}
    assert re.fullmatch(r"lode_dra-[\d.]+-py3-none-any\.whl", wheel)
    assert members["kubectl-lode"].mode & 0o111


def test_the_same_tree_gives_the_same_archive(built: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run([ROOT / ".ci/krew", HOME, URI, tmp_path], check=True, env={**os.environ, "PATH": path})
    assert (tmp_path / "kubectl-lode.tar.gz").read_bytes() == (built / "kubectl-lode.tar.gz").read_bytes()


def called(plugin: Path, *argv: str, old: int = 0, fails: int = 0) -> tuple[int, list[str], str]:
    """The exit status, what Python was called with, and what was said."""
    python, log = plugin.parent / "python", plugin.parent / "log"
    python.write_text(FAKE_PYTHON.format(log=log, old=old, fails=fails))
    python.chmod(0o755)
    log.write_text("")
    cache = {"LODE_PYTHON": str(python), "XDG_CACHE_HOME": str(plugin.parent / "cache")}
    ended = subprocess.run([plugin, *argv], env={**os.environ, **cache}, capture_output=True, text=True, check=False)
    return ended.returncode, log.read_text().splitlines(), ended.stderr


def test_the_first_call_makes_the_environment_and_later_ones_use_it(plugin: Path) -> None:
    status, first, said = called(plugin, "top", "nodes")
    assert status == 0
    assert [line.split()[1] for line in first[1:]] == ["venv", "pip", "cli"]
    assert re.search(r"store/lode_dra-.*\.whl\[command\]$", first[2])
    assert first[3] == "-m cli top nodes"
    assert "installing into" in said
    assert called(plugin, "explain", "pod/p") == (0, ["-m cli explain pod/p"], "")


def test_a_call_that_fails_leaves_nothing_and_the_next_one_begins_anew(plugin: Path) -> None:
    assert called(plugin, "top", fails=1)[0] == 1
    assert not list((plugin.parent / "cache/kubectl-lode").iterdir())
    assert called(plugin, "top")[1][-1] == "-m cli top"


def test_an_old_python_is_refused_with_the_remedy(plugin: Path) -> None:
    status, _, said = called(plugin, "top", old=1)
    assert status == 2
    assert "is not Python 3.11 or newer; name one in LODE_PYTHON" in said
    assert not (plugin.parent / "cache").exists()
