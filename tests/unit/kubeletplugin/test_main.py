"""The whole program: threads, sockets and signals, over an API in memory or none at all."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.clock import SystemClock
from driver.errors import OperatorFault
from driver.kube.api import NODES, RESOURCE_SLICES, Api, ApiCall, Unavailable
from driver.kube.client import KubeClient
from driver.kube.decorator import ApiDecorator
from driver.settings import Settings
from kubeletplugin.__main__ import PluginProcess, main
from kubeletplugin.prepare.preparer import LOOKUP_SECONDS, RETRY_TIMEOUT_SECONDS
from memoryapi import MemoryApi
from simulation.kubernetes.dra_plugin import ClaimName
from simulation.kubernetes.plugin_client import PluginClient

# A thread that dies as it should may be noticed only while the next test runs.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

PATIENCE = 20.0


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def settings(folder: Path, **section: Any) -> Settings:
    (folder / "boot_id").write_text("boot-1\n")
    paths = {"kubeletRoot": str(folder), "cdiRoot": str(folder / "cdi"), "bootIdFile": str(folder / "boot_id")}
    own = {"hardware": "simulated", "simulatedFaults": "", "profile": "t4x2", **paths, **section}
    return Settings.model_validate({"observeAddress": "127.0.0.1:0", "kubeletplugin": own})


def api_with_node(**labels: str) -> MemoryApi:
    api = MemoryApi(SystemClock(), blocking=True)
    api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "labels": labels}})
    return api


@contextmanager
def running(api: Api, chosen: Settings) -> Iterator[PluginProcess]:
    plugin, status = PluginProcess(api, chosen, "node-a", "pod-1"), []
    thread = threading.Thread(target=lambda: status.append(plugin.run()))
    thread.start()
    try:
        yield plugin
    finally:
        plugin.stop()
        thread.join(PATIENCE)
    assert status == [0]


def devices(api: Api) -> set[str]:
    slices = api.list(RESOURCE_SLICES).items
    return {device["name"] for found in slices for device in found["spec"].get("devices", [])}


def test_it_publishes_registers_and_takes_its_leave(tmp_path: Path) -> None:
    api, client = api_with_node(), PluginClient(str(tmp_path), "lode.dev")
    with running(api, settings(tmp_path)) as plugin:
        wait_for(lambda: "not registered" in plugin.ready())
        wait_for(lambda: bool(client.sync()))
        wait_for(lambda: plugin.ready() == "")
        assert devices(api) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}
        for found in api.list(RESOURCE_SLICES).items:
            api.delete(RESOURCE_SLICES, found["metadata"]["name"])
        wait_for(lambda: len(devices(api)) == 4)
    assert client.sync() == []
    assert len(devices(api)) == 4
    assert [path.name for path in tmp_path.rglob("*") if not path.is_dir()] == ["boot_id"]


def test_the_nodes_label_chooses_its_profile(tmp_path: Path) -> None:
    api = api_with_node(**{"lode.dev/simulated-profile": "ascend310px4"})
    with running(api, settings(tmp_path)):
        wait_for(lambda: "npu-0" in devices(api))


def label(api: Api, profile: str | None) -> None:
    api.patch(NODES, "node-a", {"metadata": {"labels": {"lode.dev/simulated-profile": profile}}})


def test_a_label_that_comes_or_changes_later_counts_as_well(tmp_path: Path) -> None:
    api = api_with_node()
    chosen = settings(tmp_path)
    section = chosen.kubeletplugin.model_copy(update={"profile": ""})
    with running(api, chosen.model_copy(update={"kubeletplugin": section})):
        wait_for(lambda: bool(api.list(RESOURCE_SLICES).items))
        assert devices(api) == set()
        label(api, "a100x4")
        wait_for(lambda: "gpu-3" in devices(api))
        label(api, "t4x2")
        wait_for(lambda: devices(api) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"})
        label(api, None)
        wait_for(lambda: devices(api) == set())


def test_pods_can_end_while_the_hardware_is_not_found(tmp_path: Path) -> None:
    api, client = api_with_node(**{"lode.dev/simulated-profile": "h100x9"}), PluginClient(str(tmp_path), "lode.dev")
    claim = ClaimName("team", "c", "11111111-2222-4333-8444-555555555555")
    with running(api, settings(tmp_path)) as plugin:
        wait_for(lambda: "profile 'h100x9': unknown profile" in plugin.ready())
        wait_for(lambda: bool(client.sync()))
        assert client.unprepare([claim])[claim.uid].error == ""
        assert plugin.healthy() == ""
        api.patch(NODES, "node-a", {"metadata": {"labels": {"lode.dev/simulated-profile": "t4x2"}}})
        wait_for(lambda: plugin.ready() == "")
    client.close()


def test_it_is_unhealthy_when_its_sockets_are_gone_and_not_while_it_stops(tmp_path: Path) -> None:
    with running(api_with_node(), settings(tmp_path)) as plugin:
        wait_for(lambda: bool(list((tmp_path / "plugins_registry").glob("*.sock"))))
        wait_for(lambda: plugin.healthy() == "")
        for path in tmp_path.rglob("*.sock"):
            path.unlink()
        wait_for(lambda: "does not answer" in plugin.healthy())
        plugin.stop()
        assert plugin.healthy() == ""


class Late(ApiDecorator):
    """An API that can be reached only after a while."""

    def __init__(self, api: Api):
        super().__init__(api)
        self.reachable = False

    def before(self, call: ApiCall) -> None:
        if call.verb == "get" and not self.reachable:
            raise Unavailable("connection refused")


def test_it_waits_for_the_api_and_says_so(tmp_path: Path) -> None:
    api = Late(api_with_node())
    with running(api, settings(tmp_path)) as plugin:
        wait_for(lambda: plugin.ready() == "connection refused")
        api.reachable = True
        wait_for(lambda: len(devices(api)) == 4)


def test_a_checkpoint_of_a_newer_version_is_waited_out_and_said(tmp_path: Path) -> None:
    checkpoint = tmp_path / "plugins" / "lode.dev" / "checkpoint.json"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text('{"kind": "LodeCheckpoint", "version": 99, "sha256": ""}\n')
    api = api_with_node()
    with running(api, settings(tmp_path)) as plugin:
        wait_for(lambda: "written by a newer kubelet plugin: 99" in plugin.ready())
        assert devices(api) == set()
        checkpoint.unlink()
        wait_for(lambda: len(devices(api)) == 4)


def test_a_socket_that_cannot_be_opened_is_said_and_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "plugins_registry"
    folder.write_text("in the way")
    api = api_with_node()
    with running(api, settings(tmp_path)) as plugin:
        wait_for(lambda: "plugins_registry" in plugin.ready())
        folder.unlink()
        wait_for(lambda: len(devices(api)) == 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"profile": "nope"}, "unknown profile"), ({"bootIdFile": "/no/such/file"}, "No such file")],
)
def test_what_an_operator_must_mend_is_said_while_it_waits(tmp_path: Path, change: dict[str, str], said: str) -> None:
    with running(api_with_node(), settings(tmp_path, **change)) as plugin:
        wait_for(lambda: said in plugin.ready())


class Broken(ApiDecorator):
    """An API client with a defect."""

    def before(self, call: ApiCall) -> None:
        if call.verb == "list":
            raise KeyError("defect")


def test_a_defect_in_a_thread_ends_the_program_with_an_error_so_that_it_is_started_anew(tmp_path: Path) -> None:
    assert PluginProcess(Broken(api_with_node()), settings(tmp_path), "node-a", "").run() == 1


def test_settings_that_cannot_be_used_end_it_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("kubeletplugin: {ofer: [whole]}\nlogLevel: loud\n")
    assert main(["--settings", str(file), "--node-name", "n"]) == 2
    said = capsys.readouterr().err
    assert "kubeletplugin.ofer" in said
    assert "logLevel" in said
    assert main(["--settings", str(tmp_path / "missing"), "--node-name", "n"]) == 2
    assert main(["--node-name", ""]) == 2
    assert "set NODE_NAME" in capsys.readouterr().err


def test_no_call_of_the_api_takes_as_long_as_the_kubelet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def connect(_: str, **options: Any) -> None:
        given.update(options)
        raise OperatorFault("no credentials")

    monkeypatch.setattr(KubeClient, "from_environment", connect)
    assert main(["--node-name", "n"]) == 2
    assert 0 < given["call_seconds"] + LOOKUP_SECONDS < RETRY_TIMEOUT_SECONDS


def test_the_command_prints_its_version_and_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["version"]) == 0
    assert capsys.readouterr().out.count(".") == 2
    for wrong in (["version", "--loud"], ["fly"], []):
        with pytest.raises(SystemExit):
            lode(wrong)


def test_as_a_process_it_is_alive_though_not_ready_without_an_api_and_ends_at_sigterm(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chosen = settings(tmp_path).model_copy(update={"observe_address": f"127.0.0.1:{port}"})
    (tmp_path / "settings.yaml").write_text(chosen.model_dump_json(by_alias=True))
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    (tmp_path / "kubeconfig").write_text(
        f"{{apiVersion: v1, kind: Config, current-context: c, clusters: [{cluster}], "
        "users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    command = [sys.executable, "-m", "cli", "kubeletplugin", "--settings", str(tmp_path / "settings.yaml")]
    environment = {**os.environ, "NODE_NAME": "node-a", "KUBECONFIG": str(tmp_path / "kubeconfig")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: asked(port, "/healthz") == (200, "ok"))
            status, why = asked(port, "/readyz")
            assert status == 503
            assert why
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()  # otherwise a failure would wait for its end


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()
    except urllib.error.URLError:
        return 0, ""
