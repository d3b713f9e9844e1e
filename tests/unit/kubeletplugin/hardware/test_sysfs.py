"""What the kernel says of PCI functions is read; what it does not say is unknown."""

from pathlib import Path

import pytest

from kubeletplugin.hardware.answer import LACKS, Unread
from kubeletplugin.hardware.place import Place
from kubeletplugin.hardware.places import Places
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.erring_files import ErringSysfs
from tests.fakes.sysfs_tree import add_function, add_hca

PLACE = Place(("pci0000:15", "0000:18:00.0"), numa_node=1)


def test_the_way_to_a_function_starts_at_its_root_complex(tmp_path: Path) -> None:
    add_function(tmp_path, "pci0000:15", "0000:15:01.0", "0000:18:00.0", numa_node=1)
    assert Sysfs(str(tmp_path)).way_of("0000:18:00.0") == ("pci0000:15", "0000:15:01.0", "0000:18:00.0")
    assert Sysfs(str(tmp_path)).numa_node("0000:18:00.0") == 1


def test_the_way_to_an_hca_ends_at_its_function(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0")
    assert Sysfs(str(tmp_path)).way("class/infiniband/mlx5_0") == ("pci0000:15", "0000:19:00.0")


def test_a_root_complex_can_have_a_domain_of_more_than_four_digits(tmp_path: Path) -> None:
    add_function(tmp_path, "pci10000:00", "10000:00:02.0")
    assert Sysfs(str(tmp_path)).way_of("10000:00:02.0") == ("pci10000:00", "10000:00:02.0")


@pytest.mark.parametrize("bus_id", ["0000:99:00.0", "", "../../etc"])
def test_a_function_that_does_not_exist_has_no_way(tmp_path: Path, bus_id: str) -> None:
    assert Sysfs(str(tmp_path)).way_of(bus_id) in (LACKS, ())
    assert Sysfs(str(tmp_path)).numa_node(bus_id) is None


def test_a_node_without_numa_has_no_numa_node(tmp_path: Path) -> None:
    add_function(tmp_path, "pci0000:15", "0000:18:00.0")
    assert Sysfs(str(tmp_path)).numa_node("0000:18:00.0") is None


def test_a_machine_without_sysfs_has_nothing(tmp_path: Path) -> None:
    sysfs = Sysfs(str(tmp_path / "absent"))
    assert (sysfs.names("class"), sysfs.text("class/x"), sysfs.is_there("class")) == ((), "", LACKS)


def test_what_cannot_be_read_is_no_answer(tmp_path: Path) -> None:
    add_function(tmp_path, "pci0000:15", "0000:18:00.0", numa_node=1)
    sysfs = ErringSysfs(str(tmp_path))
    sysfs.state.change({"fault.read": "EIO", "fault.way": "EACCES", "fault.listed": "ENODEV"})
    numa = sysfs.read("bus/pci/devices/0000:18:00.0/numa_node")
    assert isinstance(numa, Unread)
    assert numa.why == f"{tmp_path}/bus/pci/devices/0000:18:00.0/numa_node: Input/output error"
    assert isinstance(sysfs.way_of("0000:18:00.0"), Unread)
    assert sysfs.listed("bus") is LACKS


@pytest.mark.parametrize("error", ["ENOENT", "EIO"])
def test_a_function_stays_where_it_was_while_its_files_do_not_answer(tmp_path: Path, error: str) -> None:
    add_function(tmp_path, "pci0000:15", "0000:18:00.0", numa_node=1)
    sysfs = ErringSysfs(str(tmp_path))
    places = Places(sysfs)
    there = Place(("pci0000:15", "0000:18:00.0"), 1)
    assert places.place("0000:18:00.0") == there
    sysfs.state.change({"fault.read": error, "fault.way": error})
    assert places.place("0000:18:00.0") == there
    assert Places(sysfs).place("0000:18:00.0").root == ""
    sysfs.state.change({"fault": None})
    assert places.place("0000:18:00.0") == there


@pytest.mark.parametrize(
    ("way", "switch"),
    [
        ("pci0000:00 0000:00:01.0 0000:01:00.0", ""),
        ("pci0000:00 0000:00:02.0 0000:03:00.0 0000:04:08.0 0000:06:00.0", "0000:03:00.0"),
        # Two switches one behind the other, as on a board with several chips: the nearer one.
        ("pci0000:00 0000:00:02.0 0000:03:00.0 0000:04:08.0 0000:05:00.0 0000:06:10.0 0000:07:00.0", "0000:05:00.0"),
        ("", ""),
    ],
    ids=["none", "one", "two", "unknown"],
)
def test_the_switch_of_a_function_is_the_nearest_on_its_way(way: str, switch: str) -> None:
    assert Place(tuple(way.split())).switch == switch


def test_nothing_is_kept_of_addresses_that_are_not_there(tmp_path: Path) -> None:
    """Device plugins choose the addresses that they say."""
    add_function(tmp_path, "pci0000:15", "0000:18:00.0", numa_node=1)
    places = Places(Sysfs(str(tmp_path)))
    for number in range(100):
        assert places.place(f"{number:04x}:18:00.0") == (PLACE if number == 0 else Place())
    assert len(places._known) == 1
