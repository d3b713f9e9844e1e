"""The table of a run, and which runs do not count."""

from tests.chaos.schedule import LEAST_TIMES, OF_ONE_VERSION, Fault, Kind
from tests.chaos.table import HEAD, Played, findings, lacking, table

ETCD, NODE = Fault(0, Kind.ETCD), Fault(10, Kind.NODE, 1)


def test_a_row_has_the_number_of_times_and_the_median_and_worst_recovery() -> None:
    played = [Played(ETCD, 0, seconds) for seconds in (4.0, 20.0, 5.0)]
    played += [Played(ETCD, 9, None, ["a claim is left", "a file is left"]), Played(NODE, 30, 61.4)]
    lines = table(played).splitlines()
    assert "\n".join(lines[:2]) == HEAD
    assert "| etcd killed | 4 | 5 | 20 | 1 | 2 |" in lines
    assert "| node restarted | 1 | 61 | 61 | 0 | 0 |" in lines
    assert "| Lode upgraded | 0 |  |  | 0 | 0 |" in lines
    assert len(lines) == 2 + len(Kind)


def test_a_fault_that_could_not_be_done_does_not_count() -> None:
    played = [Played(ETCD, 0, None, failure="no such process"), Played(ETCD, 0, 3.0)]
    assert "| etcd killed | 1 | 3 | 3 | 0 | 0 |" in table(played)
    assert f"etcd killed: 1 times of {LEAST_TIMES}; no such process" in list(lacking(played))


def test_nothing_is_lacking_if_each_kind_came_ten_times() -> None:
    played = [Played(Fault(0, kind), 0, 1.0) for kind in Kind for _ in range(LEAST_TIMES)]
    assert not list(lacking(played))
    assert list(lacking(played[1:]))


def test_a_finding_names_the_fault_before_it() -> None:
    played = [Played(NODE, 30.4, None, ["a claim is left"])]
    assert list(findings(played)) == ["- at 30 s, after node restarted on worker 1: a claim is left"]


def test_a_run_of_some_kinds_lacks_no_others() -> None:
    played = [Played(Fault(0, kind), 0, 1.0) for kind in OF_ONE_VERSION for _ in range(LEAST_TIMES)]
    assert not list(lacking(played, OF_ONE_VERSION))
    assert "Lode downgraded" not in table(played, OF_ONE_VERSION)
