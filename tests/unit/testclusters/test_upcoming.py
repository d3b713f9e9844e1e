"""What is built of a version of Kubernetes that has no release, and of which not every module is served."""

import re
from collections.abc import Callable

import pytest

from testclusters.upcoming import STAND_INS, StandIn, newest_first, plan_build
from tests.unit.testclusters.test_command_line import ROOT

UPSTREAM = """module k8s.io/kubernetes

go 1.27.0

require (
\tgithub.com/spf13/cobra v1.10.2
\tgo.etcd.io/etcd/client/v3 v3.7.3
\tk8s.io/api v0.0.0
\tk8s.io/ktesting v0.0.0
\tsigs.k8s.io/structured-merge-diff/v7 v7.0.1
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/ktesting => ./staging/src/k8s.io/ktesting
)
"""
MERGE = "sigs.k8s.io/structured-merge-diff/v7"


def all_but(*missing: str) -> Callable[[str, str], bool]:
    return lambda module, version: module not in missing


def replaced(go_mod: str) -> dict[str, str]:
    return dict(re.findall(r"^replace (\S+) => (.+)$", go_mod, re.MULTILINE))


def test_where_everything_is_served_nothing_stands_in() -> None:
    planned = plan_build("v1.38.0-rc.1", UPSTREAM, all_but())
    assert planned.stand_ins == ()
    assert replaced(planned.go_mod) == {
        "k8s.io/api": "k8s.io/api v0.38.0-rc.1",
        "k8s.io/ktesting": "k8s.io/ktesting v0.38.0-rc.1",
    }
    assert "\ngo 1.27.0\n" in planned.go_mod
    assert "require k8s.io/kubernetes v1.38.0-rc.1\n" in planned.go_mod
    assert "require go.etcd.io/etcd/server/v3 v3.7.3\n" in planned.go_mod


@pytest.mark.parametrize(
    ("missing", "place"),
    [("k8s.io/ktesting", "./standins/ktesting"), (MERGE, f"{MERGE} v7.0.0")],
    ids=["an assembled one", "another version"],
)
def test_a_module_that_is_not_served_is_the_only_one_that_is_replaced(missing: str, place: str) -> None:
    planned = plan_build("v1.38.0", UPSTREAM, all_but(missing))
    assert [one.module for one in planned.stand_ins] == [missing]
    everything = replaced(plan_build("v1.38.0", UPSTREAM, all_but()).go_mod)
    assert replaced(planned.go_mod) == everything | {missing: place}


def test_a_stand_in_is_asked_about_in_the_version_that_is_required() -> None:
    asked: dict[str, str] = {}

    def served(module: str, version: str) -> bool:
        asked[module] = version
        return True

    plan_build("v1.38.2", UPSTREAM, served)
    assert asked == {"k8s.io/ktesting": "v0.38.2", MERGE: "v7.0.1"}


def test_a_release_is_tried_before_candidates_and_these_before_betas() -> None:
    listed = ["v1.37.2", "v1.38.0-alpha.2", "v1.38.0-beta.0", "v1.38.0-rc.0", "v1.38.0", "v1.380.0"]
    assert newest_first("1.38", listed) == ["v1.38.0", "v1.38.0-rc.0", "v1.38.0-beta.0", "v1.38.0-alpha.2"]
    assert newest_first("1.39", listed) == []


@pytest.mark.parametrize("one", STAND_INS, ids=lambda one: one.module)
def test_a_stand_in_has_a_reason_and_is_made_of_something(one: StandIn) -> None:
    assert len(one.reason) > 20
    assert bool(one.version) != bool(one.source or one.written)


def test_our_files_for_stand_ins_are_all_used() -> None:
    there = {path.name for path in (ROOT / "testclusters/programs/standins").iterdir()}
    assert there == {name for one in STAND_INS for name in one.own}
