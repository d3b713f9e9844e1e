"""The options of ``lode top`` are those of kubectl: formats, order, headers, names, and watching."""

import argparse
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.commands import COMMANDS, SUBJECTS
from cli.top import run as running
from cli.top.report import Listing, TableColumn, ordered, rendered
from driver.errors import OperatorFault
from tests.unit.cli.user import User, hold

COLUMNS = (
    TableColumn("NAME", "name"),
    TableColumn("MEM", "held", of="all", form="memory"),
    TableColumn("UTIL", "util", form="percent", missing="-"),
    TableColumn("USED-BY", "users", wide=True),
)
ROWS = Listing(
    (
        {"name": "b", "held": "512Mi", "all": "80Gi", "util": 0.5},
        {"name": "a", "held": "16Gi", "all": "80Gi", "users": ["p", "q", "r", "s"]},
        {"name": "c", "util": 0.0},
    )
)


def test_what_nobody_has_measured_is_a_dash_and_never_zero() -> None:
    lines = [line.split() for line in rendered(ROWS, COLUMNS, "table").splitlines()]
    assert lines == [
        ["NAME", "MEM", "UTIL"],
        ["b", "512Mi/80Gi", "50%"],
        ["a", "16Gi/80Gi", "-"],
        ["c", "<none>", "0%"],
    ]


def test_headers_can_be_left_out() -> None:
    assert rendered(ROWS, COLUMNS, "table", headers=False).splitlines()[0].split()[0] == "b"


@pytest.mark.parametrize(
    ("by", "order"), [("name", "abc"), ("NAME", "abc"), ("held", "abc"), ("mem", "abc"), ("util", "bca")]
)
def test_rows_are_sorted_numbers_largest_first_and_unknown_last(by: str, order: str) -> None:
    assert "".join(item["name"] for item in ordered(ROWS, COLUMNS, by).items) == order


def test_a_column_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(OperatorFault, match="'age': no column of that name; choose one of name, held, util, users"):
        ordered(ROWS, COLUMNS, "age")


def test_a_table_has_the_first_of_many_values_and_a_wide_one_all() -> None:
    column = TableColumn("USED-BY", "users")
    assert column.cell(ROWS.items[1], 3) == "p,q,r,+1"
    assert column.cell(ROWS.items[1]) == "p,q,r,s"


@pytest.mark.parametrize("word", ["node", "nodes", "no"])
def test_subjects_may_be_written_as_for_kubectl(cluster: User, capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert lode(["top", word, "g", "--no-headers"]) == 0
    assert capsys.readouterr().out.split()[0] == "g"


def test_claims_are_selected_by_label_and_name(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    hold(cluster, "one", "g/gpu-0")
    hold(cluster, "two", "g/gpu-1")
    assert lode(["top", "claims", "two", "--no-headers"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["two"]
    assert lode(["top", "claims", "-l", "team=a"]) == 0
    assert "No claims hold devices" in capsys.readouterr().err


def test_a_wrong_column_is_an_error_of_the_command(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["top", "nodes", "--sort-by", "nonsense"]) == 2
    assert "lode top: --sort-by 'nonsense'" in capsys.readouterr().err


def watched(argv: list[str]) -> argparse.Namespace:
    parser = COMMANDS["top"].parser
    assert parser is not None
    return parser().parse_args(argv)


def run_watched(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> int:
    monkeypatch.setattr(running, "SystemClock", lambda: SimpleNamespace(monotonic=monotonic, sleep=sleep))
    return running.run(watched(argv))


def test_watching_prints_again_until_it_is_interrupted(
    cluster: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            hold(cluster, "c", "g/gpu-0")
        else:
            raise KeyboardInterrupt

    assert run_watched(monkeypatch, ["nodes", "--watch", "--no-headers"], lambda: 0.0, sleep) == 0
    first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (first[3], second[3]) == ("0", "1")
    assert pauses == [5.0, 5.0]


def test_watching_asks_at_most_half_of_the_time(cluster: User, monkeypatch: pytest.MonkeyPatch) -> None:
    times: Iterator[float] = iter((0.0, 40.0))
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise KeyboardInterrupt

    assert run_watched(monkeypatch, ["nodes", "-w"], lambda: next(times), sleep) == 0
    assert pauses == [40.0]


def test_what_fails_while_watching_ends_it_with_the_reason(cluster: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from driver.kube.api import Unavailable

    def sleep(seconds: float) -> None:
        del seconds
        cluster.error = Unavailable("down")

    with pytest.raises(OperatorFault, match="gave no usable answer: down"):
        run_watched(monkeypatch, ["nodes", "-w"], lambda: 0.0, sleep)


def test_every_subject_has_the_options_of_kubectl() -> None:
    for subject, known in SUBJECTS.items():
        if not known.labels:
            continue
        found: Any = watched([subject, "x", "-l", "a=b", "-o", "wide", "--sort-by", "x", "-w"])
        assert (found.only, found.selector, found.output, found.watch) == (["x"], "a=b", "wide", True)
