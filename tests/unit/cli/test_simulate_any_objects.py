"""Whatever objects are left out, damaged or written in another way, ``lode simulate`` has an answer or names faults."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.__main__ import main as lode
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.objects.checks import check
from cli.objects.documents import BadInput, Document, Origin
from cli.shipped import device_classes
from driver.kube.api import Object
from driver.names import Names
from tests.unit.cli.cluster import (
    allocated,
    claim,
    listed,
    node,
    pod,
    slices,
    stored,
    template,
    told,
)

# Laws

CLUSTER: list[Object] = [
    *slices("a", "t4x2"),
    *slices("b", "t4x2"),
    node("a"),
    node("b"),
    *device_classes(),
    template("card"),
    template("part", "gpu-share.lode.dev", capacity={"requests": {"memory": "8Gi"}}),
    claim("alone"),
    stored(claim("shared"), created="2027-01-15T07:00:00Z"),
    *(pod(f"p{number}", of="card" if number % 2 else "part") for number in range(5)),
    stored(pod("q", "shared"), created="2027-01-15T08:00:00Z"),
    stored(pod("r", "shared"), created="2027-01-15T08:00:00Z"),
]


@given(st.permutations(CLUSTER))
def test_the_order_of_documents_does_not_matter(objects: list[Object]) -> None:
    assert told(objects) == told(CLUSTER)


@given(st.lists(st.sampled_from(CLUSTER), unique_by=id))
def test_whatever_is_left_out_there_is_an_answer(objects: list[Object]) -> None:
    pods, claims = told(objects)
    held = [
        (device["pool"], device["device"])
        for outcome in (*pods, *claims)
        for one in outcome["claims"]
        for device in one["devices"]
        if "consumedCapacity" not in device and one["state"] == "chosen" and one.get("name") != "shared"
    ]
    assert len(held) == len(set(held))


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where each value in a JSON value stands."""
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (name,)
        yield from ((name, *rest) for rest in paths(value[name]))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    copied = list(value) if isinstance(value, list) else dict(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], by) if len(path) > 1 else by
    return copied


BROKEN = [
    *(obj for obj in CLUSTER if obj["kind"] != "Node"),
    *map(stored, (obj for obj in CLUSTER if obj["kind"] == "ResourceSlice")),
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 1, "ordinals": {"start": 1}, "template": {"spec": pod("x", of="card")["spec"]}},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod("x", of="card")["spec"]}},
    },
    allocated(claim("held"), "a/gpu-0", "q"),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"a": "b"}}},
]


@given(st.data())
def test_whatever_is_damaged_there_is_an_answer_or_faults(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(BROKEN) - 1))
    path = data.draw(st.sampled_from(list(paths(BROKEN[number]))))
    by: Any = data.draw(st.sampled_from([None, 5, -1, True, "", "x", [], [5], {}, {"x": 5}, [{}], 1e300]))
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in CLUSTER if obj["kind"] != "Node"}
    spoilt = replaced(BROKEN[number], path, by)
    objects[BROKEN[number]["kind"], BROKEN[number]["metadata"]["name"]] = spoilt
    checked = check([Document(Origin("f", n), obj) for n, obj in enumerate(objects.values(), 1)], "default")
    if not checked.faults:
        with suppress(BadInput):
            simulate_all(snapshot_of(checked.objects, Names(), device_classes()))


def test_yaml_and_json_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(CLUSTER))
    (tmp_path / "b.json").write_text(listed(*CLUSTER))
    answers = []
    for name in ("a.yaml", "b.json"):
        lode(["simulate", "-f", str(tmp_path / name), "-o", "json"])
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
