"""The plugin over its real sockets, called as a kubelet calls it."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from kubeletplugin.prepare import ClaimRef, PrepareError, Preparer, PrepareResult
from kubeletplugin.server import PREPARE_WORKERS, SUPPORTED_VERSIONS
from simulation.kubernetes.dra_plugin import ClaimName, PluginDown
from simulation.kubernetes.plugin_client import PluginClient
from tests.unit.kubeletplugin.plugin_node import DRIVER, POOL, SHARE_A, result, share
from tests.unit.kubeletplugin.socket_node import SocketNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SocketNode]:
    made = SocketNode(tmp_path)
    yield made
    made.close()


def fields(device: Any) -> dict[str, Any]:
    return {
        "requests": list(device.request_names),
        "pool": device.pool_name,
        "device": device.device_name,
        "cdi": list(device.cdi_device_ids),
    }


def test_a_kubelet_finds_the_plugin_and_gets_what_is_allocated(node: SocketNode) -> None:
    server = node.start()
    assert server.problem == "not registered with the kubelet yet"
    (found,) = node.client.sync()
    assert (server.problem, node.registrations) == ("", 1)
    assert found.versions == SUPPORTED_VERSIONS
    assert found.versions[:2] == ("v1.DRAPlugin", "v1.DRAResourceHealth")
    claim = node.claim("c", [result("gpu-0", "main/first"), share("gpu-1-share", SHARE_A, request="part")])
    answer = node.client.prepare_resources([claim])[claim.uid]
    whole, part = answer.devices
    assert not answer.error
    assert fields(whole) == {
        "requests": ["main"],
        "pool": POOL,
        "device": "gpu-0",
        "cdi": [f"lode.dev/claim={claim.uid}_main_gpu-0"],
    }
    assert (whole.HasField("share_id"), part.share_id) == (False, SHARE_A)
    assert [path.name for path in node.cdi.iterdir()] == [f"lode.dev-claim_{claim.uid}.json"]
    assert not node.client.unprepare_resources([claim])[claim.uid].error
    assert list(node.cdi.iterdir()) == []


def test_a_kubelet_of_kubernetes_1_36_is_served_v1_and_the_older_health_service(node: SocketNode) -> None:
    node.start()
    client = PluginClient(str(node.root), DRIVER, versions=("v1.DRAPlugin", "v1alpha1.DRAResourceHealth"))
    client.sync()
    claim = node.claim("c", [share("gpu-1-share", SHARE_A)])
    (device,) = client.prepare_resources([claim])[claim.uid].devices
    assert fields(device)["device"] == "gpu-1-share"
    assert device.share_id == SHARE_A
    assert next(client.health()).devices
    client.close()


def test_a_kubelet_that_knows_only_v1beta1_does_not_register_the_plugin(node: SocketNode) -> None:
    server = node.start()
    client = PluginClient(str(node.root), DRIVER, versions=("v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"))
    assert client.sync() == []
    assert server.problem.startswith("the kubelet rejected the registration: none of v1.DRAPlugin")
    client.close()


def test_every_claim_of_a_call_has_an_answer_of_its_own(node: SocketNode) -> None:
    node.start()
    node.client.sync()
    good, bad = node.claim("good", [result("gpu-0")]), node.claim("bad", [result("gpu-9")])
    unknown = ClaimName("team", "nowhere", "11111111-2222-4333-8444-555555555555")
    answers = node.client.prepare([good, bad, unknown])
    assert {uid: bool(answer.error) for uid, answer in answers.items()} == {
        good.uid: False,
        bad.uid: True,
        unknown.uid: True,
    }
    assert "does not have the device: 'gpu-9'" in answers[bad.uid].error
    assert {uid: answer.error for uid, answer in node.client.unprepare([good, bad, unknown]).items()} == {
        good.uid: "",
        bad.uid: "",
        unknown.uid: "",
    }


class Waiting(Preparer):
    """Answers when it is no longer wanted, which it has to be told."""

    def __init__(self) -> None:
        self.withdrawn = threading.Event()

    def prepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareResult | PrepareError]:
        self._wait(wanted)
        return {}

    def unprepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareError | None]:
        self._wait(wanted)
        return {}

    def _wait(self, wanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while wanted() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not wanted():
            self.withdrawn.set()


def test_a_call_that_the_kubelet_withdraws_is_known_to_be_unwanted(node: SocketNode) -> None:
    preparer = Waiting()
    node.start(preparer=preparer)
    client = PluginClient(str(node.root), DRIVER, call_seconds=1)
    client.sync()
    with pytest.raises(PluginDown):
        client.prepare([ClaimName("team", "c", "11111111-2222-4333-8444-555555555555")])
    assert preparer.withdrawn.wait(30)
    client.close()


class Full(Preparer):
    """Every prepare waits until something is unprepared, as for a device that a stopping container still holds."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.unprepared = threading.Event()

    def prepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareResult | PrepareError]:
        self.waiting.release()
        self.unprepared.wait()
        return {ref.uid: PrepareResult(ref) for ref in refs}

    def unprepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareError | None]:
        self.unprepared.set()
        return {ref.uid: None for ref in refs}


def test_prepares_that_wait_do_not_keep_an_unprepare_out(node: SocketNode) -> None:
    preparer = Full()
    node.start(preparer=preparer)
    node.client.sync()
    claims = [ClaimName("team", "c", f"11111111-2222-4333-8444-{number:012}") for number in range(PREPARE_WORKERS + 8)]
    with ThreadPoolExecutor(len(claims)) as kubelet:
        answers = kubelet.map(lambda claim: node.client.prepare([claim]), claims)
        for _ in range(PREPARE_WORKERS):
            assert preparer.waiting.acquire(timeout=30)
        node.client.unprepare(claims[:1])
        assert all(not answer.error for given in answers for answer in given.values())


def test_an_unprepare_that_the_kubelet_withdraws_is_known_to_be_unwanted(node: SocketNode) -> None:
    preparer = Waiting()
    node.start(preparer=preparer)
    client = PluginClient(str(node.root), DRIVER, call_seconds=1)
    client.sync()
    with pytest.raises(PluginDown):
        client.unprepare([ClaimName("team", "c", "11111111-2222-4333-8444-555555555555")])
    assert preparer.withdrawn.wait(30)
    client.close()


@pytest.mark.parametrize("removed", ["plugins_registry/lode.dev-reg.sock", "plugins/lode.dev/dra.sock"])
def test_a_socket_that_vanished_is_noticed(node: SocketNode, removed: str) -> None:
    server = node.start()
    assert server.probe() == ""
    with grpc.insecure_channel(f"unix:{node.root / removed}") as other:
        grpc.channel_ready_future(other).result(timeout=10)
        (node.root / removed).unlink()
        assert removed in server.probe(), "what was connected before says nothing of what can connect now"
        assert "does not answer" in server.probe()


def test_a_socket_that_another_plugin_took_is_noticed(node: SocketNode) -> None:
    server = node.start()
    registration = node.root / "plugins_registry/lode.dev-reg.sock"
    registration.unlink()
    node.start("other")
    (node.root / "plugins_registry/lode.dev-other-reg.sock").rename(registration)
    assert "belongs to another plugin" in server.probe()


@pytest.mark.parametrize("version", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
def test_the_health_stream_repeats_the_full_list_and_tells_of_changes(node: SocketNode, version: str) -> None:
    node.start()
    client = PluginClient(str(node.root), DRIVER, versions=("v1.DRAPlugin", version))
    client.sync()
    reports = client.health(seconds=10)
    first, second = itertools.islice(reports, 2)
    devices = {device.device.device_name: device.health for device in first.devices}
    assert devices == {"gpu-0": 1, "gpu-1": 1, "gpu-0-share": 1, "gpu-1-share": 1}
    assert {device.device.pool_name for device in first.devices} == {POOL}
    assert [device.device for device in first.devices] == [device.device for device in second.devices]
    assert all(device.health_check_timeout_seconds >= 1 for device in first.devices)
    node.faults.mkdir()
    (node.faults / "gpu-1").write_text("Xid 79")
    sick = next(report for report in reports if any(device.health == 2 for device in report.devices))
    assert {device.device.device_name: device.message for device in sick.devices if device.health == 2} == {
        "gpu-1": "Xid 79",
        "gpu-1-share": "Xid 79",
    }
    client.close()


def test_stopping_ends_the_health_stream_and_takes_the_sockets_away(node: SocketNode) -> None:
    server = node.start()
    node.client.sync()
    reports = node.client.health()
    next(reports)
    node.stop(server)
    assert list(reports) == []
    assert node.sockets() == []
    assert node.client.sync() == []
    with pytest.raises(PluginDown):
        node.client.registered()


def test_two_instances_take_turns_without_a_gap(node: SocketNode) -> None:
    old = node.start("old-pod")
    node.client.sync()
    claim = node.claim("c", [result("gpu-0")])
    before = node.client.prepare([claim])
    node.start("new-pod")
    assert len(node.client.sync()) == 2
    assert node.client.prepare([claim]) == before
    node.stop(old)
    (left,) = node.client.sync()
    assert left.endpoint.endswith("dra-new-pod.sock")
    assert node.client.prepare([claim]) == before
    assert not node.client.unprepare([claim])[claim.uid].error


def test_sockets_of_killed_instances_are_removed_and_those_of_live_ones_kept(node: SocketNode) -> None:
    node.start("living")
    for path in (
        node.root / "plugins_registry" / "lode.dev-dead-reg.sock",
        node.root / "plugins/lode.dev/dra-dead.sock",
    ):
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(str(path))
    node.start("next")
    assert node.sockets() == [
        "plugins/lode.dev/dra-living.sock",
        "plugins/lode.dev/dra-next.sock",
        "plugins_registry/lode.dev-living-reg.sock",
        "plugins_registry/lode.dev-next-reg.sock",
    ]


def test_a_restart_under_the_same_name_replaces_what_the_killed_instance_left(node: SocketNode) -> None:
    for path in (node.root / "plugins_registry" / "lode.dev-reg.sock", node.root / "plugins/lode.dev/dra.sock"):
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(str(path))
    node.start()
    assert [plugin.driver for plugin in node.client.sync()] == [DRIVER]


def test_a_refusal_by_the_kubelet_is_a_problem_until_it_registers_the_plugin(node: SocketNode) -> None:
    server = node.start()
    unknown = PluginClient(str(node.root), DRIVER, versions=("v9.DRAPlugin",))
    assert unknown.sync() == []
    assert server.problem.startswith("the kubelet rejected the registration: none of v1.DRAPlugin")
    assert node.registrations == 0
    node.client.sync()
    assert server.problem == ""
