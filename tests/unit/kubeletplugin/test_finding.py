"""The settings say which hardware a node has."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from driver.errors import LodeError
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.finding import FoundNode, find_hardware, profile_name
from kubeletplugin.hardware.ascend.dcmi import DcmiError
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.simulated import SimulatedHardware
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles


def found(root: Path, labels: dict[str, str] | None = None, **section: Any) -> CombinedHardware:
    roots = {"sysRoot": str(root / "sys"), "devRoot": str(root / "dev"), "driverRoot": str(root)}
    settings = Settings.model_validate({"kubeletplugin": {**roots, **section}})
    profile = profile_name(settings, {"metadata": {"labels": labels}})
    node = FoundNode("n1", profile)
    return find_hardware(settings, node, files=MemoryFiles(), clock=VirtualClock(), log=logger("test"))


def test_a_node_without_accelerators_has_no_cards(tmp_path: Path) -> None:
    hardware = found(tmp_path)
    assert (hardware.cards(), hardware.health()) == ((), {})


def test_simulated_cards_are_those_of_the_profile_or_of_the_nodes_label(tmp_path: Path) -> None:
    simulated = found(tmp_path, hardware="simulated", profile="t4x2")
    assert isinstance(simulated.of_card(simulated.cards()[0].uuid), SimulatedHardware)
    assert len(simulated.cards()) == 2
    labelled = found(tmp_path, {"lode.dev/simulated-profile": "h100x8"}, hardware="simulated", profile="t4x2")
    assert len(labelled.cards()) == 8


def test_hardware_that_the_setting_names_is_asked_whether_the_node_seems_to_have_it_or_not(tmp_path: Path) -> None:
    hardware = found(tmp_path, hardware="ascend", ascend={"library": str(tmp_path / "libdcmi.so"), "npuSmi": ""})
    with pytest.raises(DcmiError, match=r"libdcmi\.so"):
        hardware.cards()


@pytest.mark.parametrize("folder", ["dev", "host/dev", "host/run/nvidia/driver/dev"])
def test_a_driver_is_found_by_its_device_files_also_in_its_container(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "nvidiactl"
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/null")
    nvidia = {"driverRoot": "/run/nvidia/driver", "hostRoot": str(tmp_path / "host")}
    with pytest.raises(LodeError, match="libnvidia-ml"):
        found(tmp_path, nvidia=nvidia).cards()


def test_cards_without_a_driver_are_told_once(tmp_path: Path) -> None:
    card = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030200\n")
    with capture_logs() as lines:
        hardware = found(tmp_path)
        assert [hardware.cards(), hardware.cards()] == [(), ()]
    (line,) = lines
    assert (line["brand"], line["cards"], line["missing"]) == ("NVIDIA", 1, "nvidiactl")
    assert "install NVIDIA's driver" in line["remedy"]
    assert "kubeletplugin.nvidia.driverRoot" in line["remedy"]


def test_a_bus_that_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    card = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    (card / "vendor").mkdir(parents=True)  # reading it is an error, and no answer
    (card / "class").write_text("0x030200\n")
    with capture_logs() as lines:
        hardware = found(tmp_path)
        assert (hardware.cards(), lines) == ((), [])
        (card / "vendor").rmdir()
        (card / "vendor").write_text("0x10de\n")
        assert hardware.cards() == ()
    assert [line["cards"] for line in lines] == [1]


@pytest.mark.parametrize("pattern", ["GPU-1", "1", "gpu-[1]"])
def test_cards_that_the_setting_names_are_not_offered_and_can_be_released(tmp_path: Path, pattern: str) -> None:
    """The other cards keep their names; what claims have on the card is still taken back."""
    cards = found(tmp_path, hardware="simulated", profile="h100x8").cards()
    hardware = found(tmp_path, hardware="simulated", profile="h100x8", excludeCards=[pattern])
    assert hardware.cards() == tuple(card for card in cards if card.name != "gpu-1")
    assert hardware.of_card(cards[1].uuid)
