"""Device plugins that have not found their way to Lode are found, on a node with real sockets."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.doctor.node_checks import ObservedBridge, check_bridge
from cli.doctor.node_look import look_at_bridge
from driver.kube.codec import encode_object
from driver.settings_file import settings_from
from kubeletplugin.hardware.deviceplugin.remembered import KnownResource
from kubeletplugin.hardware.deviceplugin.reported import Reported

BOOT = "boot-1"
CARD = "example.com/card"
SETTINGS = """
kubeletplugin:
  kubeletRoot: /kubelet
  hardware: deviceplugin
  deviceplugin:
    folder: /plugins
    resources:
      example.com/card: {idPattern: "card(?P<side>left|right)", attributes: {side: {group: side}}}
"""
Listen = Callable[[str], None]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """Somebody listens at a path of the node."""
    opened: list[socket.socket] = []

    def at(path: str) -> None:
        place = tmp_path / path
        place.parent.mkdir(exist_ok=True)
        opened.append(socket.socket(socket.AF_UNIX))
        opened[-1].bind(str(place))
        opened[-1].listen()

    yield at
    for each in opened:
        each.close()


def look(root: Path, text: str = SETTINGS) -> ObservedBridge | None:
    return look_at_bridge(settings_from(text, "settings"), root, BOOT)


def told(root: Path, text: str = SETTINGS) -> dict[str, str]:
    """The status and message of each finding, by what it is about."""
    return {finding.subject: f"{finding.status}: {finding.message}" for finding in check_bridge(look(root, text))}


def know(root: Path, *ids: str) -> None:
    """A device plugin has registered these devices in this boot."""
    known = {CARD: KnownResource("card.sock", tuple(map(Reported, ids)))}
    (root / "plugins-state").mkdir()
    (root / "plugins-state/known.json").write_bytes(encode_object({"bootId": BOOT, "value": known}))


@pytest.mark.parametrize("text", ["", "kubeletplugin: {hardware: simulated, deviceplugin: {enabled: true}}"])
def test_where_the_settings_serve_none_nothing_is_looked_at(tmp_path: Path, text: str) -> None:
    assert look(tmp_path, text) is None
    assert list(check_bridge(None)) == []


def test_a_program_that_serves_some_is_looked_at_also_without_the_settings_of_its_node(
    tmp_path: Path, listen: Listen
) -> None:
    listen("plugins/kubelet.sock")
    found = look(tmp_path, "kubeletplugin: {deviceplugin: {folder: /plugins}}")
    assert [(one.status, one.message) for one in check_bridge(found)] == [("warning", "no device plugin uses it")]


def test_all_is_well_when_a_plugin_uses_the_folder_and_its_pattern_fits(tmp_path: Path, listen: Listen) -> None:
    listen("plugins/kubelet.sock")
    listen("plugins/card.sock")
    know(tmp_path, "cardleft", "other")
    assert told(tmp_path) == {"/plugins": "ok: 1 in use: card.sock"}


def test_a_folder_without_us_and_one_that_nobody_mounts_are_told(tmp_path: Path, listen: Listen) -> None:
    know(tmp_path, "cardleft")
    assert told(tmp_path) == {"/plugins": "failed: nobody listens at kubelet.sock"}
    listen("plugins/kubelet.sock")
    listen("plugins/dead.sock")
    (tmp_path / "plugins/dead.sock").unlink()
    assert told(tmp_path) == {"/plugins": "warning: no device plugin uses it"}


def test_a_plugin_that_went_to_the_kubelet_is_told(tmp_path: Path, listen: Listen) -> None:
    know(tmp_path, "cardleft")
    for name in ("plugins/kubelet.sock", "plugins/a.sock", "kubelet/device-plugins/kubelet.sock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        listen(name)
    listen("kubelet/device-plugins/example.com_card")
    assert told(tmp_path)["example.com_card"] == "warning: has registered with the kubelet, not with Lode"


def test_a_pattern_that_fits_nothing_is_told_with_an_id(tmp_path: Path, listen: Listen) -> None:
    listen("plugins/kubelet.sock")
    listen("plugins/card.sock")
    know(tmp_path, "card-1", "card-2")
    expected = "warning: idPattern card(?P<side>left|right) fits none of its 2 IDs, such as card-1"
    assert told(tmp_path)[CARD] == expected


def test_a_plugin_that_has_registered_and_listed_nothing_is_told(tmp_path: Path, listen: Listen) -> None:
    listen("plugins/kubelet.sock")
    listen("plugins/card.sock")
    know(tmp_path)
    assert told(tmp_path)[CARD] == "warning: is registered, and its device plugin has listed no device"


def test_settings_of_a_resource_that_nobody_has_registered_are_told(tmp_path: Path) -> None:
    assert told(tmp_path)[CARD] == "warning: has settings, and no device plugin has registered it"


def test_every_finding_that_is_not_well_has_its_remedy(tmp_path: Path, listen: Listen) -> None:
    findings = list(check_bridge(look(tmp_path)))
    assert findings
    assert all(finding.remedy for finding in findings)
