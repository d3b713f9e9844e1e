"""What is seen of a node below a folder of the test's own: real files, and a plugin's real sockets."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from cli.doctor.node_checks import check_node
from cli.doctor.node_look import observe_node
from driver.settings import KubeletPluginSettings, NvidiaSettings, Settings
from tests.unit.kubeletplugin.socket_node import SocketNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SocketNode]:
    made = SocketNode(tmp_path)
    yield made
    made.close()


def test_a_plugin_that_serves_is_found_by_its_answer(node: SocketNode) -> None:
    node.start()
    (registration,) = observe_node(node.settings).registrations
    assert registration.driver == "lode.dev"
    assert registration.endpoint == str(node.root / "plugins/lode.dev/dra.sock")
    assert registration.endpoint_listens


def test_a_socket_without_a_plugin_is_told_apart(node: SocketNode) -> None:
    server = node.start()
    path = node.root / "plugins_registry/lode.dev-reg.sock"
    kept = path.with_name("kept.sock")
    path.rename(kept)
    node.stop(server)
    (registration,) = observe_node(node.settings).registrations
    assert (registration.path, registration.driver) == (str(kept), "")


def machine(root: Path) -> None:
    """A machine with one GPU, one NPU and a network card, the drivers, and a device plugin."""
    for address, vendor, kind in (
        ("0000:18:00.0", "0x10de", "0x030200"),
        ("0000:c1:00.0", "0x19e5", "0x120000"),
        ("0000:19:00.0", "0x15b3", "0x020700"),
    ):
        folder = root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    for path in (
        "dev/nvidiactl",
        "dev/davinci0",
        "run/driver/usr/lib64/libnvidia-ml.so.1",
        "run/driver/usr/local/Ascend/driver/lib64/libdcmi.so",
        "var/lib/kubelet/device-plugins/nvidia-gpu.sock",
        "var/run/cdi/x.json",
        "var/lib/kubelet/plugins_registry",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")


def test_a_card_whose_vendor_cannot_be_read_is_unknown_and_not_absent(tmp_path: Path) -> None:
    vendor = tmp_path / "sys/bus/pci/devices/0000:18:00.0/vendor"
    vendor.mkdir(parents=True)  # reading it is an error, and no answer
    facts = observe_node(Settings(), str(tmp_path))
    assert [str(vendor) in why for why in facts.unseen] == [True]
    found = [(item.check, item.status) for item in check_node(facts)]
    assert ("files", "unknown") in found
    assert ("cards", "ok") not in found


def test_cards_libraries_and_device_files_are_seen_below_their_roots(tmp_path: Path) -> None:
    machine(tmp_path)
    facts = observe_node(Settings(), str(tmp_path), "/run/driver")
    assert facts.cards == {"nvidia": 1, "huawei": 1}
    assert facts.device_files == {"nvidiactl", "davinci0"}
    assert facts.libraries == {"libnvidia-ml.so.1", "libdcmi.so"}
    assert facts.device_plugins == ("nvidia-gpu.sock",)
    assert facts.folders == {
        "/var/run/cdi": "present",
        "/var/lib/kubelet/plugins_registry": "no folder",
        "/var/lib/kubelet/plugins/lode.dev": "missing",
    }
    assert observe_node(Settings(), str(tmp_path)).libraries == frozenset()
    section = KubeletPluginSettings(nvidia=NvidiaSettings(driver_root="/run/driver"))
    assert "libnvidia-ml.so.1" in observe_node(Settings(kubeletplugin=section), str(tmp_path)).libraries


def test_a_file_that_cannot_be_looked_at_is_named_and_ends_no_other_check(tmp_path: Path) -> None:
    machine(tmp_path)
    too_long = "/" + "a" * 300
    section = KubeletPluginSettings(nvidia=NvidiaSettings(driver_root="/run/driver", library_folders=(too_long,)))
    facts = observe_node(Settings(kubeletplugin=section), str(tmp_path))
    assert facts.device_files == {"nvidiactl", "davinci0"}
    found = [one for one in check_node(facts) if one.check == "files"]
    assert {one.status for one in found} == {"unknown"}
    assert any(f"{too_long}/libnvidia-ml.so.1 of the host cannot be looked at" in one.message for one in found)


def test_the_device_files_of_a_driver_container_are_seen(tmp_path: Path) -> None:
    machine(tmp_path)
    for name in ("nvidia-uvm", "nvidia0"):
        path = tmp_path / "run/driver/dev" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    section = KubeletPluginSettings(nvidia=NvidiaSettings(driver_root="/run/driver"))
    for facts in (
        observe_node(Settings(kubeletplugin=section), str(tmp_path)),
        observe_node(Settings(), str(tmp_path), "/run/driver"),
    ):
        assert facts.device_files == {"nvidiactl", "davinci0", "nvidia-uvm", "nvidia0"}
        found = {(one.check, one.subject): one for one in check_node(facts)}["device nodes", "NVIDIA"]
        assert (found.status, found.message) == ("ok", "all 1 cards are in /dev and /run/driver/dev")


def test_the_command_fails_where_something_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["doctor", "node", "--root", str(tmp_path), "-o", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is False
    assert {found["check"] for found in told["findings"] if found["status"] == "failed"} == {
        "folder",
        "boot id",
        "registration",
    }
    assert {found["check"] for found in told["findings"] if found["status"] == "unknown"} == {"CDI"}


def test_settings_that_are_not_valid_end_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("colour: red\n")
    assert lode(["doctor", "node", "--settings", str(path)]) == 2
    assert "colour" in capsys.readouterr().err
