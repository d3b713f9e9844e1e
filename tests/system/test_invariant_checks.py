"""The invariant checks find defects: histories fail if a program has a defect that other drivers had."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controller.allocation import DeviceLedger
from controller.election import Election
from controller.reconcile import PlacementHistory
from controller.refusal import Refusal
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.model import Claim
from kubeletplugin.prepare import DeviceStatusWriter
from kubeletplugin.prepare.assessor import Assessor
from kubeletplugin.prepare.checkpoint import Checkpoint
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish import Publisher
from simulation.invariants import Violation
from tests.simulation.access import Right
from tests.simulation.faults import FaultProfile, NetworkFaults
from tests.simulation.settled_checks import check_no_writes_without_news, check_nobody_waits_behind_words
from tests.system.history import HistoryFailed, play
from tests.system.objects import NAMESPACE, pod
from tests.system.scenario import Scenario

SEEDS = 30
JOINED = 23
"""The seed of a history in which pods join a claim whose device has gone bad."""


def _ignores_claims_for_several_cards(patch: pytest.MonkeyPatch) -> None:
    """Volcano issue 3824: claims for several cards were not counted."""
    count = DeviceLedger.upsert_claim

    def forgetful(ledger: DeviceLedger, claim: Claim) -> Any:
        if claim.allocation is None or len(claim.allocation.results) < 2:
            return count(ledger, claim)
        return None

    patch.setattr(DeviceLedger, "upsert_claim", forgetful)
    patch.setattr(DeviceLedger, "assume", lambda ledger, uid, allocation: None)


def _keeps_files_of_deleted_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("kubeletplugin.prepare.storage.ClaimStorage.remove", lambda storage, uid: None)


def _does_not_publish_again(patch: pytest.MonkeyPatch) -> None:
    """A kubelet that starts deletes the slices; a plugin that publishes only once does not notice."""
    patch.setattr(Publisher, "handle", lambda publisher, delta: None)
    patch.setattr(Publisher, "republish_now", lambda publisher: None)


def _records_no_claim_without_hardware(patch: pytest.MonkeyPatch) -> None:
    save = ClaimStorage.save

    def partly(storage: ClaimStorage, checkpoint: Checkpoint) -> None:
        save(storage, replace(checkpoint, claims={uid: it for uid, it in checkpoint.claims.items() if it.steps}))

    patch.setattr(ClaimStorage, "save", partly)


def _records_nothing_before_the_hardware_changes(patch: pytest.MonkeyPatch) -> None:
    save = ClaimStorage.save

    def late(storage: ClaimStorage, checkpoint: Checkpoint) -> None:
        if all(claim.state == "completed" for claim in checkpoint.claims.values()):
            save(storage, checkpoint)

    patch.setattr(ClaimStorage, "save", late)


def _writes_files_in_any_order(patch: pytest.MonkeyPatch) -> None:
    write = ClaimStorage.write
    patch.setattr(
        ClaimStorage, "write", lambda storage, uid, wanted: write(storage, uid, dict(reversed(wanted.items())))
    )


def _does_not_sync_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.simulation.process.ProcessDisk.sync", lambda disk, path: None)


def _does_not_sync_folders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.simulation.process.ProcessDisk.sync_folder", lambda disk, path: None)


def _tolerates_every_taint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("controller.allocation.devices.device_index.DeviceIndex.upsert_taint_rule", lambda index, rule: None)


def _keeps_removed_taint_rules(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeviceLedger, "remove_taint_rule", lambda ledger, name: None)


def _lets_pods_go_without_devices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("controller.loop.podsync.claim_steps", lambda state, updates: ())


def _says_what_holds_for_another_pod(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("controller.explaining.messages._with_names", lambda summary, names, namespaces: summary)


def _places_pods_on_closed_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("controller.placement.predicates._closing_reasons", lambda needs, facts: ())


def _never_says_which_cards_claims_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeviceStatusWriter, "remember", lambda writer, ref, claim, entries: None)


DEFECTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    _ignores_claims_for_several_cards: "is exclusive, held by",
    _keeps_files_of_deleted_claims: "the checkpoint does not know its claim",
    _does_not_publish_again: "",
    _records_no_claim_without_hardware: "the checkpoint does not know its claim",
    _records_nothing_before_the_hardware_changes: (
        "are in MIG mode|memory is used by vnpu|which the checkpoint records for"
    ),
    _writes_files_in_any_order: "which are not there",
    _does_not_sync_files: "is not synced, though its writer has gone on",
    _does_not_sync_folders: "is not synced, though its writer has gone on",
    _tolerates_every_taint: "which the request does not tolerate|answers otherwise",
    _keeps_removed_taint_rules: "after a restart",
    _lets_pods_go_without_devices: "the pod is let go, but its claim .* is not allocated",
    _says_what_holds_for_another_pod: "names claims that are not the pod's",
    _places_pods_on_closed_nodes: "is to be allocated on .* which is closed by",
    _never_says_which_cards_claims_have: r"are allocated, but status\.devices has \[\]",
}
"""Defects, and what is said about each."""


def _play_all() -> None:
    for seed in range(SEEDS):
        play(seed)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_program_with_a_defect_fails_one_of_the_first_histories(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(HistoryFailed) as failure:
        _play_all()
    message = str(failure.value)
    assert re.search(DEFECTS[defect], message)
    assert "reproduce: LODE_SEED=" in message
    assert "lines of the event log" in message


def test_a_controller_that_lets_pods_go_on_a_bad_device_fails_a_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.reconcile.pods.unusable", lambda state, pod, held: None)
    with pytest.raises(HistoryFailed, match=r"joins-.* is let go: .* has the taint .*, which the claim does not"):
        play(JOINED)


def test_a_plugin_that_does_not_look_is_caught_when_a_force_deleted_pod_stops_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Assessor, "blocked", lambda assessor, claim, cards, checkpoint: None)
    scenario = Scenario()
    scenario.create("first", "gpu-8", grace=120)
    scenario.settle()
    scenario.create("next", "gpu-8")
    scenario.cluster.user.delete(PODS, "first", NAMESPACE, grace_period_seconds=0)
    with pytest.raises(Violation, match=r"on node n1: .* is exclusive, held by containers of default/first"):
        scenario.settle()


def bound_to_a_full_node() -> Scenario:
    """The pod ``next`` is bound to the only node, all of whose cards the pod ``first`` uses."""
    scenario = Scenario()
    scenario.create("first", "gpu-8")
    scenario.settle()
    bound = pod("next", template_name="gpu-1")
    scenario.cluster.user.create(PODS, {**bound, "spec": {**bound["spec"], "nodeName": "n1"}})
    scenario.settle()
    assert "the pod is bound to node n1, but has no devices there" in scenario.why_pending("next")
    return scenario


def test_a_pod_that_is_bound_without_devices_may_wait_until_they_are_free_on_its_node() -> None:
    scenario = bound_to_a_full_node()
    scenario.delete("first")
    scenario.settle()
    assert scenario.running("next")


def test_a_controller_that_gives_no_devices_to_bound_pods_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = bound_to_a_full_node()
    monkeypatch.setattr("controller.reconcile.pods.find_place", lambda demand, *rest: Refusal(demand.key, None))
    scenario.delete("first")
    with pytest.raises(Violation, match="pod default/next waits, but could run on n1"):
        scenario.settle()


def test_an_election_without_a_fence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that stalls inside a decision must not write after another took over; conflicts alone do not stop it."""
    monkeypatch.setattr(Election, "term", property(lambda election: 1))
    with pytest.raises(Violation):
        _stalled_leaders()


def _stalled_leaders() -> None:
    for seed in range(SEEDS):
        scenario = Scenario(seed, controllers=2)
        scenario.cluster.faults = FaultProfile(interleave=0.3, skip_watch=0.5)
        for index in range(8):
            scenario.create(f"p{index}", "gpu-1")
            scenario.cluster.run(10)
        scenario.cluster.faults = FaultProfile()
        scenario.settle()


def test_two_candidates_that_believe_in_their_lease_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Election, "leading", property(lambda election: True))
    with pytest.raises(Violation, match="hold the Lease at once"):
        Scenario(controllers=2)


def test_a_pod_that_waits_while_words_cannot_be_written_is_caught() -> None:
    scenario = Scenario()
    scenario.cluster.faults = FaultProfile(network=NetworkFaults(silence=1.0))
    scenario.cluster.slots.stall("controller-0", 10_000)
    scenario.create("first", "gpu-1")
    with pytest.raises(Violation, match=r"pods wait while words cannot be written, but could run: .*default/first"):
        check_nobody_waits_behind_words(scenario.cluster)


def test_refused_pods_that_are_tried_again_and_again_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlacementHistory, "standing", lambda history, revision_of, now: {})
    scenario = Scenario()
    scenario.cluster.user.create(PODS, pod("refused", template_name="gpu-1", refused_on=["n1"]))
    scenario.cluster.advance(30)
    with pytest.raises(Violation, match="writes in an hour, in which nothing but 1 refused pods was news"):
        check_no_writes_without_news(scenario.cluster)


def test_a_plugin_says_which_cards_a_claim_has_before_it_can_publish_them() -> None:
    """After a reboot, the cards have other numbers."""
    scenario, publish = Scenario(count=2), Right("plugin", RESOURCE_SLICES, writes=True)
    cluster = scenario.cluster
    scenario.create("first", "gpu-1")
    scenario.settle()
    cluster.access.take(publish)
    cluster.hardware["n1"].moves = 1
    cluster.reboot("n1")
    cluster.advance(200)
    cluster.access.give_back(publish)
    scenario.settle()
    (claim,) = cluster.user.list(RESOURCE_CLAIMS).items
    (entry,) = claim["status"]["devices"]
    cards = {card.name: card.uuid for card in cluster.hardware["n1"].cards_of_node.cards()}
    assert entry["data"]["uuid"] == cards[entry["device"]]


def test_a_card_that_was_never_published_is_caught_in_a_settled_cluster() -> None:
    scenario = Scenario(count=2)
    scenario.create("first", "gpu-1")
    scenario.settle()
    (claim,) = scenario.cluster.user.list(RESOURCE_CLAIMS).items
    (entry,) = claim["status"]["devices"]
    wrong = {**entry, "data": {**entry["data"], "uuid": "GPU-wrong"}}
    name, status = claim["metadata"]["name"], {"status": {"devices": [wrong]}}
    scenario.cluster.user.patch(RESOURCE_CLAIMS, name, status, namespace=NAMESPACE, subresource="status")
    with pytest.raises(Violation, match=r"says that .* is 'GPU-wrong', which was never published"):
        scenario.settle()
