"""Which faults a run has, and what it prints."""

import argparse
from pathlib import Path

import pytest

from tests.chaos.__main__ import chosen
from tests.chaos.schedule import LEAST_TIMES, OF_ONE_VERSION, Kind

DEFAULTS = {"seed": 1, "hours": 2.0, "only": None, "mixed": False, "first": 0, "results": Path("x")}


def arguments(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{**DEFAULTS, **given})


def test_a_run_has_every_fault_of_its_seed() -> None:
    assert len(chosen(arguments())) == LEAST_TIMES * len(Kind)
    assert chosen(arguments(seed=2)) != chosen(arguments())


def test_with_network_cards_lode_stays_in_its_version() -> None:
    faults = chosen(arguments(mixed=True))
    assert {it.kind for it in faults} == set(OF_ONE_VERSION)
    assert len(faults) == LEAST_TIMES * len(OF_ONE_VERSION)


def test_to_try_some_kinds_or_the_first_faults_alone() -> None:
    only = chosen(arguments(only=[Kind.ETCD, Kind.NODE]))
    assert {it.kind for it in only} == {Kind.ETCD, Kind.NODE}
    assert chosen(arguments(only=[Kind.ETCD], first=2)) == [it for it in only if it.kind == Kind.ETCD][:2]


@pytest.mark.parametrize("hours", [0.0, 0.1])
def test_a_short_run_has_as_many_faults_one_right_after_the_other(hours: float) -> None:
    assert len(chosen(arguments(hours=hours))) == LEAST_TIMES * len(Kind)
    assert chosen(arguments(hours=hours))[-1].at < hours * 3600 or hours == 0
