"""The fake kubelet treats plugin, pods and claims as the real one does."""

import pytest

from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.settings import Settings
from simulation.kubernetes.kubelet import Kubelet
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from simulation.kubernetes.scheduler import KubeScheduler
from tests.simulation.node import MemoryNode
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes, FakePlugin


class FakeNode(FakeKubernetes):
    def __init__(self) -> None:
        super().__init__()
        self.simulated_node = MemoryNode("n1")
        self.plugin = FakePlugin()
        self.components = [
            ResourceClaimController(self.as_user("resource-claim-controller"), self.clock),
            KubeScheduler(self.as_user("kube-scheduler"), self.clock, self.api.bind),
        ]
        self.template()
        self.node("n1")
        self.start_kubelet()

    def start_kubelet(self, jitter: float = 0.0) -> None:
        self.kubelet = Kubelet(self.as_user("kubelet"), self.clock, self.simulated_node, self.plugin, lambda: jitter)
        self.components = [*self.components[:2], self.kubelet]

    def run_pod(self) -> None:
        pod = self.pod()
        self.settle()
        self.allocate(reserve=pod)
        self.remove_gate()
        self.settle()


@pytest.fixture
def rig() -> FakeNode:
    return FakeNode()


def test_a_pod_runs_once_its_claim_is_prepared(rig: FakeNode) -> None:
    rig.run_pod()
    assert rig.plugin.calls == ["registered", "prepare"]
    assert rig.get()["status"]["phase"] == "Running"
    (container,) = rig.simulated_node.containers.values()
    assert [result.device.device for _, result in container.devices] == ["gpu-0"]


def test_a_failed_prepare_is_an_event_and_is_retried_after_a_minute(rig: FakeNode) -> None:
    rig.plugin.error = "no such device"
    rig.run_pod()
    assert rig.get()["status"]["phase"] == "Pending"
    assert "no such device" in rig.api.list(EVENTS).items[0]["message"]
    rig.plugin.error = ""
    rig.advance(59)
    assert rig.get()["status"]["phase"] == "Pending"
    rig.advance(2)
    assert rig.get()["status"]["phase"] == "Running"


def test_a_deleted_pod_is_unprepared_before_it_is_removed(rig: FakeNode) -> None:
    rig.run_pod()
    rig.plugin.error = "busy"
    rig.api.delete(PODS, "p", "default")
    rig.settle()
    assert rig.plugin.calls[-1] == "unprepare"
    assert rig.get()["metadata"]["deletionTimestamp"]
    assert rig.claims()[0]["status"]["allocation"]
    rig.plugin.error = ""
    rig.advance(16)
    assert rig.api.list(PODS).items == []
    assert rig.claims() == []


def test_a_finished_pod_is_unprepared_before_it_is_reported(rig: FakeNode) -> None:
    rig.run_pod()
    uid = rig.get()["metadata"]["uid"]
    rig.plugin.down = True
    assert rig.simulated_node.end_containers(uid, "Succeeded")
    rig.kubelet.containers_changed(uid)
    rig.settle()
    assert rig.get()["status"]["phase"] == "Running"
    rig.plugin.down = False
    rig.advance(16)
    assert rig.get()["status"]["phase"] == "Succeeded"
    assert rig.claims() == []
    assert not rig.simulated_node.containers


def test_a_force_deleted_pod_is_cleaned_up_on_the_node(rig: FakeNode) -> None:
    rig.run_pod()
    rig.api.delete(PODS, "p", "default", grace_period_seconds=0)
    rig.settle()
    assert rig.plugin.calls[-1] == "unprepare"
    assert not rig.simulated_node.containers


def test_containers_keep_their_devices_until_they_have_stopped() -> None:
    rig = FakeNode()
    rig.kubelet = Kubelet(rig.as_user("kubelet"), rig.clock, rig.simulated_node, rig.plugin, lambda: 1.0)
    rig.components = [*rig.components[:2], rig.kubelet]
    rig.run_pod()
    rig.api.delete(PODS, "p", "default")
    rig.settle()
    rig.advance(29)
    assert rig.plugin.calls[-1] == "prepare"
    assert [container.exit_phase for container in rig.simulated_node.containers.values()] == [""]
    rig.advance(2)
    assert rig.plugin.calls[-1] == "unprepare"
    assert rig.api.list(PODS).items == []


def test_a_claim_allocated_anew_gives_later_pods_what_it_was_prepared_with() -> None:
    """The kubelet asks for a claim once, as long as pods of the node have it, and looks at no allocation again."""
    rig = FakeNode()
    rig.start_kubelet(jitter=1.0)
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}]}}
    rig.api.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": spec})
    entries = [{"name": "device", "resourceClaimName": "shared"}]
    for name, device in (("p", "gpu-0"), ("later", "gpu-1")):
        pod = rig.pod(name, resourceClaims=entries)
        rig.settle()
        rig.allocate(device=device, reserve=pod)
        rig.remove_gate(name)
        rig.settle()
        if name == "p":
            rig.api.delete(PODS, "p", "default", grace_period_seconds=0)
            rig.settle()
    assert rig.get("later")["status"]["phase"] == "Running"
    assert rig.plugin.calls.count("prepare") == 1
    containers = {one.pod: one.devices for one in rig.simulated_node.containers.values()}
    assert containers["default/later"] == containers["default/p"]


def test_a_new_kubelet_deletes_the_slices_and_cleans_up_what_ended_meanwhile(rig: FakeNode) -> None:
    rig.run_pod()
    spec = {"driver": "lode.dev", "nodeName": "n1", "pool": {"name": "n1/lode.dev", "resourceSliceCount": 1}}
    rig.api.create(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": {**spec, "devices": []}})
    rig.api.delete(PODS, "p", "default", grace_period_seconds=0)
    rig.start_kubelet()
    rig.settle()
    assert rig.api.list(RESOURCE_SLICES).items == []
    assert rig.plugin.calls == ["registered", "prepare", "registered", "unprepare"]
    assert not rig.simulated_node.containers


@pytest.mark.parametrize("back", [True, False])
def test_the_slices_of_a_plugin_that_stays_away_are_deleted_after_half_a_minute(rig: FakeNode, back: bool) -> None:
    rig.settle()
    spec = {"driver": "lode.dev", "nodeName": "n1", "pool": {"name": "n1/lode.dev", "resourceSliceCount": 1}}
    rig.api.create(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": {**spec, "devices": []}})
    rig.kubelet.plugin_lost()
    rig.advance(29)
    assert len(rig.api.list(RESOURCE_SLICES).items) == 1
    if back:
        rig.kubelet.plugin_started()
    rig.advance(2)
    assert len(rig.api.list(RESOURCE_SLICES).items) == int(back)


def test_after_a_reboot_every_pod_is_prepared_again(rig: FakeNode) -> None:
    rig.run_pod()
    boot = rig.simulated_node.boot_id
    rig.simulated_node.reboot(Settings())
    rig.start_kubelet()
    rig.settle()
    assert rig.simulated_node.boot_id != boot
    assert rig.plugin.calls.count("prepare") == 2
    assert len(rig.simulated_node.containers) == 1


def test_a_pod_whose_claim_is_not_allocated_keeps_the_kubelet_trying_but_not_busy(rig: FakeNode) -> None:
    pod = rig.pod()
    rig.settle()
    rig.remove_gate()
    rig.api.bind("default", "p", "n1")
    rig.settle()
    assert "not yet allocated" in rig.api.list(EVENTS).items[0]["message"]
    assert not rig.kubelet.is_busy()
    rig.plugin.error = "no such device"
    rig.allocate(reserve=pod)
    rig.advance(91)
    assert rig.kubelet.is_busy(), "the plugin may succeed at the next attempt"
    rig.plugin.error = ""
    rig.advance(91)
    assert rig.get()["status"]["phase"] == "Running"
    assert not rig.kubelet.is_busy()


def test_a_pod_without_a_reservation_is_refused(rig: FakeNode) -> None:
    rig.pod()
    rig.settle()
    rig.allocate()
    rig.remove_gate()
    rig.components = [rig.kubelet]
    rig.api.bind("default", "p", "n1")
    rig.settle()
    assert "is not allowed to use ResourceClaim" in rig.api.list(EVENTS).items[0]["message"]


def test_a_pod_ends_when_its_deadline_has_passed() -> None:
    rig = FakeNode()
    rig.kubelet = Kubelet(rig.as_user("kubelet"), rig.clock, rig.simulated_node, rig.plugin, lambda: 1.0)
    rig.components = [*rig.components[:2], rig.kubelet]
    pod = rig.pod(activeDeadlineSeconds=100)
    rig.settle()
    rig.allocate(reserve=pod)
    rig.remove_gate()
    rig.settle()
    rig.advance(99)
    assert [container.stops_at for container in rig.simulated_node.containers.values()] == [None]
    rig.advance(2)
    assert rig.get()["status"]["phase"] == "Running", "its containers have their grace period"
    rig.advance(31)
    status = rig.get()["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert rig.plugin.calls[-1] == "unprepare"
    assert rig.claims() == []


def test_a_deadline_counts_from_the_start_of_the_pod_whatever_restarts(rig: FakeNode) -> None:
    pod = rig.pod(activeDeadlineSeconds=100)
    rig.settle()
    rig.allocate(reserve=pod)
    rig.remove_gate()
    rig.settle()
    rig.advance(60)
    rig.start_kubelet()
    rig.simulated_node.containers.clear()
    rig.settle()
    rig.advance(41)
    assert rig.get()["status"]["phase"] == "Failed"


def test_a_pod_that_comes_back_is_started_anew_when_its_containers_have_stopped(rig: FakeNode) -> None:
    rig.start_kubelet(jitter=1.0)
    rig.run_pod()
    backup = rig.api.backup()
    rig.api.delete(PODS, "p", "default", grace_period_seconds=0)
    rig.settle()
    rig.api.restore(backup, 1000)
    rig.settle()
    assert rig.plugin.calls == ["registered", "prepare"]
    rig.advance(60)
    assert rig.plugin.calls == ["registered", "prepare", "unprepare", "prepare"]
    assert rig.get()["status"]["phase"] == "Running"
    (container,) = rig.simulated_node.containers.values()
    assert not container.abandoned
