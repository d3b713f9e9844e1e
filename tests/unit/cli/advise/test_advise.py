"""`lode advise` on files: what it prints, and what it does with what it is asked."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from driver.kube.api import Object
from tests.unit.cli.advise.test_moves import gang, nodes, running, waiting
from tests.unit.cli.cluster import listed, node, slices, stored

SPREAD = [
    *(stored(node(name), f"2027-01-1{day}T08:00:00Z") for name, day in (("a", 2), ("b", 1))),
    *slices("a", "t4x2", ("whole",)),
    *slices("b", "t4x2", ("whole",)),
    *running("one", "a/gpu-0", priority=3),
    *running("two", "b/gpu-1"),
]


@pytest.fixture
def advise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(objects: list[Object], *argv: str) -> tuple[int, str, str]:
        path = tmp_path / "objects.json"
        path.write_text(listed(*objects))
        status = lode(["advise", "-f", str(path), *argv])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def test_moves_are_printed_as_a_table_with_the_idle_cards_below(advise: Any) -> None:
    status, out, err = advise([*SPREAD, *waiting("large", 2)])
    assert status == 0
    assert out.splitlines() == [
        "Pod default/large could run, on b, if 1 pod moved.",
        "NAMESPACE   POD   CARDS   PRIORITY   AGE   FROM   TO   DEVICES",
        "default     two   1       0          0s    b      a    gpu-1",
        "",
        "NODE   IDLE   TYPE   CARDS   SINCE",
        "b      1/2    T4     gpu-0   unknown, at most 4d",
        "a      1/2    T4     gpu-1   unknown, at most 3d",
    ]
    assert "note: " in err


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_same_is_printed_for_programs(advise: Any, form: str) -> None:
    status, out, _ = advise([*SPREAD, *waiting("large", 2)], "-o", form)
    answer = json.loads(out) if form == "json" else yaml.safe_load(out)
    assert status == 0
    assert answer["advice"] == [
        {
            "kind": "Pod",
            "namespace": "default",
            "name": "large",
            "possible": True,
            "best": True,
            "places": {"default/large": "b"},
            "moves": [
                {
                    "namespace": "default",
                    "pod": "two",
                    "cards": 1.0,
                    "priority": 0,
                    "from": "b",
                    "to": "a",
                    "devices": ["a/lode.dev/gpu-1"],
                }
            ],
        }
    ]
    assert answer["idle"][0] == {
        "node": "b",
        "cards": ["gpu-0"],
        "allCards": 2,
        "types": ["T4"],
        "since": None,
        "notBefore": "2027-01-11T08:00:00Z",
    }


def test_a_pod_that_has_to_end_is_marked(advise: Any) -> None:
    objects = [*nodes(a="t4x2"), *running("one", "a/gpu-0", created="2027-01-15T07:00:00Z")]
    out = advise([*objects, *waiting("large", 2)])[1]
    assert out.splitlines()[2].split("   ")[-1].strip() == "<has to end>"
    assert "if 1 pod ended." in out
    assert "60m" in out


def test_what_no_moves_help_is_answered_with_status_1(advise: Any) -> None:
    status, out, _ = advise([*SPREAD, *waiting("large", 3)])
    assert status == 1
    assert out.startswith("Pod default/large: no moves of pods let it run.")


def test_a_gang_is_named_by_its_name_or_a_member(advise: Any) -> None:
    objects = nodes(a="t4x2", b="t4x2", c="t4x2")
    for name in "ab":
        objects += running(name, f"{name}/gpu-0")
    for what in ("gang/ring", "pod/w1", "w1"):
        status, out, _ = advise([*objects, *gang(2)], what)
        assert status == 0
        assert out.startswith("Gang default/ring could run, on ")


@pytest.mark.parametrize(
    ("argv", "status", "problem"),
    [
        (["pod/none"], 2, "no pod default/none waits for devices"),
        (["node/a"], 2, "'node/a' names nothing; write pod/NAME or gang/NAME"),
        (["pod/Job/train"], 2, "'pod/Job/train' names nothing"),
        (["gang/Job/train"], 2, "no gang default/Job/train waits for devices"),
        (["large", "-n", "other"], 2, "no pod or gang other/large waits"),
        (["--most", "0"], 2, "--most 0: must be at least 1"),
    ],
)
def test_what_cannot_be_answered_is_refused(advise: Any, argv: list[str], status: int, problem: str) -> None:
    found = advise([*SPREAD, *waiting("large", 2)], *argv)
    assert found[0] == status
    assert problem in found[2]


def test_nothing_waits(advise: Any) -> None:
    status, out, _ = advise(SPREAD)
    assert status == 0
    assert out.startswith("Nothing waits for devices.\n\nNODE")


def test_only_the_first_are_looked_at(advise: Any) -> None:
    objects = [*SPREAD, *waiting("first", 2, priority=9), *waiting("second", 2)]
    status, out, err = advise(objects, "--most", "1")
    assert status == 0
    assert "default/first" in out
    assert "default/second" not in out
    assert "only the first 1 of 2 that wait are looked at" in err


def test_wholly_idle_nodes_come_first_and_cards_in_use_are_not_idle(advise: Any) -> None:
    objects = [*SPREAD, stored(node("c"), "2027-01-14T08:00:00Z"), *slices("c", "t4x2")]
    out = advise(objects)[1]
    assert [line.split()[:2] for line in out.splitlines()[3:]] == [["c", "2/2"], ["b", "1/2"], ["a", "1/2"]]


def test_a_fleet_without_idle_cards_says_so(advise: Any) -> None:
    objects = [*nodes(a="t4x2"), *running("one", "a/gpu-0"), *running("two", "a/gpu-1-share")]
    assert advise(objects)[1].endswith("No card is idle.\n")
