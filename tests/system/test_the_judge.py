"""Histories are worth something: they fail when a program is broken the way others are known to have been broken."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.allocation import Fleet
from controller.election import Election, Fence
from driver.kube.api import PODS
from driver.model import Claim
from kubeletplugin.prepare import Preparer
from kubeletplugin.publish import Publisher
from simulation.invariants import Violation
from simulation.weather import Weather
from tests.system.history import HistoryFailed, play
from tests.system.objects import NAMESPACE
from tests.system.town import Town

SEEDS = 30


def _forgets_claims_of_several_cards(patch: pytest.MonkeyPatch) -> None:
    """Volcano 3824: what asked for a number of cards was not counted."""
    count = Fleet.upsert_claim

    def forgetful(fleet: Fleet, claim: Claim) -> Any:
        if claim.allocation is None or len(claim.allocation.results) < 2:
            return count(fleet, claim)
        return None

    patch.setattr(Fleet, "upsert_claim", forgetful)
    patch.setattr(Fleet, "assume", lambda fleet, uid, allocation: None)


def _keeps_files_of_claims_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("kubeletplugin.prepare.storage.ClaimStorage.remove", lambda storage, uid: None)


def _does_not_publish_again(patch: pytest.MonkeyPatch) -> None:
    """A kubelet's start wipes slices; a plugin that looks only once never notices."""
    patch.setattr(Publisher, "handle", lambda publisher, delta: None)
    patch.setattr(Publisher, "republish_now", lambda publisher: None)


BROKEN = [_forgets_claims_of_several_cards, _keeps_files_of_claims_that_are_gone, _does_not_publish_again]


def _play_all() -> None:
    for seed in range(SEEDS):
        play(seed)


@pytest.mark.parametrize("breakage", BROKEN)
def test_a_broken_program_fails_a_history_soon(
    breakage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breakage(monkeypatch)
    with pytest.raises(HistoryFailed) as failure:
        _play_all()
    said = str(failure.value)
    assert "reproduce: LODE_SEED=" in said
    assert "lines of its diary" in said


def test_a_plugin_that_does_not_look_is_caught_when_a_force_deleted_pod_stops_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Preparer, "_conflicts", lambda preparer, plan, checkpoint: frozenset())
    town = Town()
    town.create("first", "gpu-8", grace=120)
    town.rest()
    town.create("next", "gpu-8")
    town.cluster.user.delete(PODS, "first", NAMESPACE, grace_period_seconds=0)
    with pytest.raises(Violation, match=r"on machine n1: .* is exclusive, held by containers of default/first"):
        town.rest()


def test_an_election_without_a_fence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that stalls inside a decision must not write once another leads; conflicts alone do not stop it."""
    monkeypatch.setattr(Fence, "_check", lambda fence, what: None)
    monkeypatch.setattr(Election, "leading", property(lambda election: True))
    with pytest.raises(Violation):
        _stalled_leaders()


def _stalled_leaders() -> None:
    for seed in range(SEEDS):
        town = Town(seed, controllers=2)
        town.cluster.weather = Weather(overtaken=0.3, unseen=0.5)
        for index in range(8):
            town.create(f"p{index}", "gpu-1")
            town.cluster.run(10)
        town.cluster.weather = Weather()
        town.rest()
