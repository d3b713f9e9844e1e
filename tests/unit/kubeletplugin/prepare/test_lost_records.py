"""A claim is prepared and everything that says what it holds is lost: nothing of it is given to others or undone."""

import pytest

from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.prepare import ClaimRef
from tests.unit.kubeletplugin.faults import Unsteady
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    CHECKPOINT,
    PLUGIN,
    PluginNode,
    prepare,
    recover,
    refused,
    release,
    result,
    unprepare,
)

ACTIONS = f"{PLUGIN}/actions.json"


class Kubelet:
    """A kubelet whose containers have devices of these claims, as it says while it answers."""

    def __init__(self, *refs: ClaimRef, answers: bool = True):
        self._refs = refs
        self.answers = answers

    def __call__(self) -> tuple[KubeletClaim, ...]:
        if not self.answers:
            return ()
        other = KubeletClaim("team", "other-driver", frozenset({"example.com/claim=abc"}))
        ours = (KubeletClaim(it.namespace, it.name, frozenset({f"lode.dev/claim={it.uid}_gpu"})) for it in self._refs)
        return (other, *ours)


def lose_all_records(rig: PluginNode, *refs: ClaimRef) -> None:
    """The checkpoint and what is on the hardware are not recorded any more, nor can files of these claims be read."""
    for path in (CHECKPOINT, ACTIONS):
        rig.files.remove(path)
    for path in rig.claim_files():
        if any(ref.uid in path for ref in refs):
            rig.files.write(path, b"\0")


def test_a_claim_all_of_whose_records_are_lost_is_known_again_from_kubelet_and_api() -> None:
    rig = PluginNode()
    lost = rig.claim("lost", [result("gpu-0"), result("gpu-1-mig-1g-5gb-6", "part")])
    other = rig.claim("other", [result("gpu-2")])
    before = rig.plugin().prepare([lost, other])
    files = {path: rig.files.read(path) for path in rig.claim_files()}
    lose_all_records(rig, lost)
    plugin = rig.plugin(kubelet=Kubelet(lost, other))
    recover(plugin)
    assert (plugin.prepared(), plugin.unrestored) == (before, frozenset())
    assert {path: rig.files.read(path) for path in rig.claim_files()} == files
    assert refused(plugin, rig.claim("next", [result("gpu-0")])).reason == "conflict"
    prepare(plugin, rig.claim("later", [result("gpu-3")]))
    unprepare(plugin, lost)
    release(rig, plugin)
    assert rig.existing() == []


@pytest.mark.parametrize("who", ["kubelet is silent", "not in the api"])
def test_as_long_as_nobody_knows_what_a_claim_holds_no_other_is_prepared_and_its_files_stay(who: str) -> None:
    rig = PluginNode()
    lost, other = rig.claim("lost", [result("gpu-0")]), rig.claim("other", [result("gpu-1")])
    watcher = rig.claim("watcher", [result("gpu-0", adminAccess=True)])
    rig.allow_admin_access()
    rig.plugin().prepare([lost, other])
    lose_all_records(rig, lost)
    files = rig.claim_files()
    if who == "not in the api":
        rig.release(lost)
    plugin = rig.plugin(kubelet=Kubelet(lost, answers=who != "kubelet is silent"))
    recover(plugin)
    assert set(plugin.prepared()) == {lost.uid, other.uid}
    assert rig.claim_files() == files
    error = refused(plugin, rig.claim("next", [result("gpu-3")]))
    assert error.reason == "conflict"
    assert f"are lost, so each may hold its devices: claim {lost.uid}; the plugin asks the kubelet" in error.message
    assert plugin.retiring.releasing(rig.hardware.cards()) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}
    prepare(plugin, watcher)
    unprepare(plugin, other)
    unprepare(plugin, lost)
    assert plugin.retiring.releasing(rig.hardware.cards()) == set()
    prepare(plugin, rig.claim("later", [result("gpu-0")]))


def test_a_claim_that_nobody_knows_is_asked_for_until_the_kubelet_answers() -> None:
    rig = PluginNode()
    lost = rig.claim("lost", [result("gpu-0")])
    before = rig.plugin().prepare([lost])
    lose_all_records(rig, lost)
    kubelet = Kubelet(lost, answers=False)
    plugin = rig.plugin(kubelet=kubelet)
    recover(plugin)
    assert plugin.unrestored == {lost.uid}
    plugin.restore_rest()
    assert plugin.unrestored == {lost.uid}
    refused(plugin, rig.claim("next", [result("gpu-1")]))
    kubelet.answers = True
    plugin.restore_rest()
    assert (plugin.unrestored, plugin.prepared()) == (frozenset(), before)
    assert rig.spec(lost)
    prepare(plugin, rig.claim("later", [result("gpu-1")]))


def test_what_is_lost_while_the_plugin_runs_is_made_again() -> None:
    rig = PluginNode()
    lost = rig.claim("lost", [result("gpu-0")])
    plugin = rig.plugin(kubelet=Kubelet(lost))
    before = plugin.prepare([lost])
    lose_all_records(rig, lost)
    release(rig, plugin)
    assert plugin.unrestored == {lost.uid}
    plugin.restore_rest()
    assert (plugin.unrestored, plugin.prepared()) == (frozenset(), before)
    assert rig.spec(lost)


def test_no_container_uses_a_claim_that_nobody_knows_after_a_reboot() -> None:
    rig = PluginNode()
    lost = rig.claim("lost", [result("gpu-0")])
    rig.plugin().prepare([lost])
    lose_all_records(rig, lost)
    rig.plugin().tidy()
    rig.reboot()
    plugin = rig.plugin(kubelet=Kubelet(lost))
    recover(plugin)
    assert plugin.prepared() == {}
    prepare(plugin, rig.claim("next", [result("gpu-0")]))


def test_the_kubelets_call_says_what_a_claim_is_that_nobody_knows() -> None:
    rig = PluginNode()
    lost = rig.claim("lost", [result("gpu-0")])
    before = rig.plugin().prepare([lost])
    lose_all_records(rig, lost)
    plugin = rig.plugin()
    plugin.tidy()
    assert plugin.prepare([lost]) == before
    prepare(plugin, rig.claim("next", [result("gpu-1")]))


def test_what_a_claim_has_is_not_undone_because_its_spec_is_lost_as_well() -> None:
    rig = PluginNode()
    ref = rig.claim("used", [result("gpu-0-mig-1g-5gb-6")])
    before, files, existing = rig.plugin().prepare([ref]), rig.claim_files(), rig.existing()
    rig.files.remove(CHECKPOINT)
    rig.files.disk.forget(CDI)
    plugin = rig.plugin(Unsteady(rig.api, failures=1000))
    recover(plugin)
    release(rig, plugin)
    assert plugin.prepared() == before
    assert (rig.claim_files(), rig.existing()) == (files, existing)
    answering = rig.plugin()
    assert refused(answering, rig.claim("next", [result("gpu-0")])).reason == "conflict"
    assert answering.prepare([ref]) == before
    unprepare(plugin, ref)
    release(rig, plugin)
    assert (rig.claim_files(), rig.existing()) == (set(), [])


@pytest.mark.parametrize("is_released", [False, True])
def test_a_claim_of_which_only_the_devices_are_known_is_completed_once_the_api_answers(is_released: bool) -> None:
    """Its spec is there when the record is lost, and is lost before the API says what the claim is."""
    rig = PluginNode()
    ref = rig.claim("used", [result("gpu-0")])
    before = rig.plugin().prepare([ref])
    (damaged,) = [path for path in rig.claim_files() if path.startswith(CDI)]
    rig.files.write(damaged, b"\0")
    rig.files.remove(CHECKPOINT)
    silent = Unsteady(rig.api, failures=1000)
    plugin = rig.plugin(silent)
    recover(plugin)
    rig.files.remove(damaged)
    assert plugin.unrestored == {ref.uid}
    if is_released:
        rig.release(ref)
    silent.failures = 0
    plugin.restore_rest()
    assert plugin.prepared() == before
    assert refused(plugin, rig.claim("next", [result("gpu-0")])).reason == "conflict"
    assert plugin.unrestored == (frozenset({ref.uid}) if is_released else frozenset())
    assert (damaged in rig.claim_files()) is not is_released
