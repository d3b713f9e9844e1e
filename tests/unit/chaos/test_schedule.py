"""The faults of a run: each kind often enough, spread, and none that makes another impossible to judge."""

from itertools import pairwise

import pytest

from tests.chaos.schedule import (
    FAULTS_BEFORE_RESTORE,
    KILLS,
    LEAST_TIMES,
    ON_NODES,
    RESTORES,
    SNAPSHOT_AGES,
    Fault,
    Kind,
    schedule,
)

SEEDS = range(40)
HOURS = 2 * 3600.0


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_comes_ten_times_and_in_every_part_of_the_run(seed: int) -> None:
    faults = schedule(seed, HOURS)
    for kind in Kind:
        times = [fault.at for fault in faults if fault.kind == kind]
        assert len(times) >= LEAST_TIMES
        assert max(later - earlier for earlier, later in pairwise([0.0, *times, HOURS])) <= HOURS / LEAST_TIMES * 2


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert schedule(3, HOURS) == schedule(3, HOURS)
    assert schedule(3, HOURS) != schedule(4, HOURS)


def test_the_faults_come_in_order_and_end_with_the_run() -> None:
    times = [fault.at for fault in schedule(1, HOURS)]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] < HOURS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_downgrade_and_an_upgrade_take_turns_and_the_last_is_an_upgrade(seed: int) -> None:
    changes = [fault.kind for fault in schedule(seed, HOURS) if fault.kind in (Kind.DOWNGRADE, Kind.UPGRADE)]
    assert changes == [Kind.DOWNGRADE, Kind.UPGRADE] * LEAST_TIMES


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restore_never_reaches_back_before_a_change_of_the_version(seed: int) -> None:
    kinds = [fault.kind for fault in schedule(seed, HOURS)]
    for place, kind in enumerate(kinds):
        if kind in RESTORES:
            before = kinds[max(0, place - FAULTS_BEFORE_RESTORE) : place]
            assert not {Kind.DOWNGRADE, Kind.UPGRADE} & set(before), (place, before)


@pytest.mark.parametrize("restore", sorted(RESTORES))
def test_etcd_is_restored_under_either_version(restore: Kind) -> None:
    versions = set()
    for seed in SEEDS:
        version = Kind.UPGRADE
        for fault in schedule(seed, HOURS):
            if fault.kind in (Kind.DOWNGRADE, Kind.UPGRADE):
                version = fault.kind
            elif fault.kind == restore:
                versions.add(version)
    assert versions == {Kind.DOWNGRADE, Kind.UPGRADE}


def test_every_worker_gets_its_share() -> None:
    for kind in ON_NODES:
        drawn = {fault.worker for seed in SEEDS for fault in schedule(seed, HOURS) if fault.kind == kind}
        assert drawn == {0, 1, 2}


def test_snapshots_are_minutes_old_and_several_programs_differ() -> None:
    for fault in (fault for seed in SEEDS for fault in schedule(seed, HOURS)):
        if fault.kind in RESTORES:
            assert SNAPSHOT_AGES[0] <= fault.seconds <= SNAPSHOT_AGES[1]
        if fault.kind == Kind.SEVERAL:
            kinds = [kind for kind, _ in fault.kills]
            assert 2 <= len(set(kinds)) == len(kinds) <= 4
            assert set(kinds) <= set(KILLS)


def test_a_fault_says_where_and_how_long() -> None:
    assert str(Fault(0, Kind.DISK, 2, 12.3)) == "small disk of a node full on worker 2, 12 s"
    killed = Fault(0, Kind.SEVERAL, kills=((Kind.ETCD, 0), (Kind.KUBELET, 1)))
    assert str(killed) == "several programs killed at once: etcd killed, kubelet killed on worker 1"
