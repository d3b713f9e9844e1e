"""What docs/simulate.md shows is what the commands print."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from cli.shipped import device_classes
from tests.unit.cli.cluster import listed, node, slices, stored
from tests.unit.cli.simulated_api import serve
from tests.unit.docs.consoles import assert_printed, commands
from tests.unit.docs.pages import ROOT

PAGE = (ROOT / "docs" / "simulate.md").read_text()
CLUSTER = [
    *(part for name in ("gpu-1", "gpu-2", "gpu-3") for part in slices(name, "t4x2")),
    *device_classes(),
    *(stored(node(name, ready=name != "gpu-3")) for name in ("gpu-1", "gpu-2", "gpu-3")),
]
(TRAIN,) = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "StatefulSet" in block]


def shown(command: str) -> list[tuple[str, list[str]]]:
    """The commands of the page that begin so, and the lines they print."""
    return [(argv, told) for argv, told in commands(PAGE) if argv.startswith(command)]


def test_simulate_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(listed(*CLUSTER))
    Path("train.yaml").write_text(TRAIN)
    ((command, told),) = shown("lode simulate")
    status = lode(["simulate", *shlex.split(command)[2:]])
    assert_printed(capsys.readouterr().out, told)
    assert [f"{status}"] == shown("echo $?")[0][1]


def keys(value: Any) -> set[str]:
    """Every key of a JSON value, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_every_key_that_is_printed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = set(re.findall(r"`(\w+)`", PAGE.partition("## JSON")[2]))
    (tmp_path / "cluster.json").write_text(listed(*CLUSTER))
    (tmp_path / "train.yaml").write_text(TRAIN)
    lode(["simulate", "-f", str(tmp_path), "-o", "json"])
    (tmp_path / "bad.yaml").write_text("kind: 5")
    lode(["simulate", "-f", str(tmp_path / "bad.yaml"), "-o", "json"])
    decoder, out = json.JSONDecoder(), capsys.readouterr().out
    good, end = decoder.raw_decode(out)
    bad = json.loads(out[end:])
    assert keys(good) | keys(bad) <= told


def test_explain_prints_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(monkeypatch, [*CLUSTER, *yaml.safe_load_all(TRAIN)])
    consoles = shown("kubectl lode explain")
    assert len(consoles) == 2
    for command, told in consoles:
        lode(["explain", *shlex.split(command)[3:]])
        assert_printed(capsys.readouterr().out, told)
