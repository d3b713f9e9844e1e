"""What docs/simulate.md shows is what the commands print."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import explain, live, simulate
from cli.checks import check
from cli.documents import Document, Origin
from cli.shipped import device_classes
from cli.simulator import simulate_all
from cli.snapshot import snapshot_of
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Page, Resource
from driver.names import Names
from tests.unit.cli.cluster import listed, node, slices, stored
from tests.unit.docs.pages import ROOT

PAGE = (ROOT / "docs" / "simulate.md").read_text()
CLUSTER = [
    *(part for name in ("gpu-1", "gpu-2", "gpu-3") for part in slices(name, "t4x2")),
    *device_classes(),
    *(stored(node(name, ready=name != "gpu-3")) for name in ("gpu-1", "gpu-2", "gpu-3")),
]
(TRAIN,) = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "StatefulSet" in block]


def shown(command: str) -> list[tuple[str, list[str]]]:
    """Commands of the page's consoles that begin so, and the lines they print."""
    consoles = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    blocks = (block for console in consoles for block in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:])
    found = [block.partition("\n")[::2] for block in blocks]
    return [(argv, text.rstrip("\n").split("\n")) for argv, text in found if argv.startswith(command)]


def same(printed: str, told: list[str]) -> None:
    """A line that ends in ... is longer."""
    lines = printed.rstrip("\n").split("\n")
    assert [
        line[: len(said) - 3] + "..." if said.endswith("...") else line for line, said in zip(lines, told, strict=True)
    ] == told


def test_simulate_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(listed(*CLUSTER))
    Path("train.yaml").write_text(TRAIN)
    ((command, told),) = shown("lode simulate")
    status = simulate.main(shlex.split(command)[2:])
    same(capsys.readouterr().out, told)
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
    simulate.main(["-f", str(tmp_path), "-o", "json"])
    (tmp_path / "bad.yaml").write_text("kind: 5")
    simulate.main(["-f", str(tmp_path / "bad.yaml"), "-o", "json"])
    decoder, out = json.JSONDecoder(), capsys.readouterr().out
    good, end = decoder.raw_decode(out)
    bad = json.loads(out[end:])
    assert keys(good) | keys(bad) <= told


class Snapshot:
    """An API that serves these objects."""

    def __init__(self, objects: dict[Resource, list[Object]]):
        self._objects = objects

    def get(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        return next(obj for obj in self._objects.get(resource, []) if obj["metadata"]["name"] == name)

    def list(self, resource: Resource, **options: Any) -> Page:
        return Page(self._objects.get(resource, []), "1")


def simulated() -> Snapshot:
    """The page's cluster once the controller has done what the page's simulation says."""
    objects = [*CLUSTER, *yaml.safe_load_all(TRAIN)]
    given = check([Document(Origin("f", number), obj) for number, obj in enumerate(objects)], "default").objects
    made = snapshot_of(given, Names())
    simulate_all(made)
    tables: dict[Resource, list[Object]] = {
        PODS: [*made.pods.values()],
        RESOURCE_CLAIMS: [*made.claims.values()],
    }
    for one in given:
        if one.resource in (NODES, RESOURCE_SLICES, DEVICE_CLASSES):
            tables.setdefault(one.resource, []).append(one.object)
    return Snapshot(tables)


def test_explain_prints_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = simulated()

    @contextmanager
    def connected(kubeconfig: str, context: str = "") -> Iterator[tuple[Any, str]]:
        yield api, "default"

    monkeypatch.setattr(live, "cluster", connected)
    consoles = shown("kubectl lode explain")
    assert len(consoles) == 2
    for command, told in consoles:
        explain.main(shlex.split(command)[3:])
        same(capsys.readouterr().out, told)
