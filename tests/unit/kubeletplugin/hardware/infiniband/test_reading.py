"""Ports are read from sysfs as they are; what cannot be read is unknown."""

from pathlib import Path

import pytest

from kubeletplugin.hardware.infiniband.ports import Hca, Port
from kubeletplugin.hardware.infiniband.reading import read_hcas
from kubeletplugin.hardware.sysfs import Sysfs
from tests.fakes.sysfs_tree import add_hca

WAY = ("pci0000:15", "0000:15:01.0", "0000:18:00.0")


def hcas(root: Path) -> tuple[Hca, ...]:
    return read_hcas(Sysfs(str(root)))


def test_a_port_has_its_guid_subnet_rate_and_partition_keys(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", *WAY, partitions=("0x7fff", "0x8012"))
    port = Port(1, "0c42a10300abcd12", "fec0000000000001", True, 400, (0x7FFF, 0x8012))
    assert hcas(tmp_path) == (Hca("mlx5_0", WAY, (port,)),)


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT", "3: ARMED", ""])
def test_a_port_is_active_only_when_the_subnet_manager_says_so(tmp_path: Path, state: str) -> None:
    add_hca(tmp_path, "mlx5_0", *WAY, state=state)
    assert not hcas(tmp_path)[0].active


def test_an_hca_has_all_its_infiniband_ports(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx4_0", *WAY, port=1)
    add_hca(tmp_path, "mlx4_0", *WAY, port=2, state="1: DOWN")
    assert [(port.number, port.active) for port in hcas(tmp_path)[0].ports] == [(1, True), (2, False)]


def test_ethernet_ports_are_left_out(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_bond_0", *WAY, link_layer="Ethernet")
    assert hcas(tmp_path) == ()


def test_virtual_functions_are_left_out(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", *WAY)
    add_hca(tmp_path, "mlx5_1", "pci0000:15", "0000:18:00.1")
    (tmp_path / "devices/pci0000:15/0000:18:00.1/physfn").mkdir()
    assert [hca.name for hca in hcas(tmp_path)] == ["mlx5_0"]


@pytest.mark.parametrize("file", ["gids/0", "rate", "state", "pkeys/0"])
@pytest.mark.parametrize("content", [None, "", "nonsense", "0000:0000:0000:0000:0000:0000:0000:0000"])
def test_what_a_port_does_not_say_is_unknown(tmp_path: Path, file: str, content: str | None) -> None:
    path = add_hca(tmp_path, "mlx5_0", *WAY) / file
    path.unlink() if content is None else path.write_text(content)
    (hca,) = hcas(tmp_path)
    port = hca.ports[0]
    unknown = {"gids/0": ("", ""), "rate": 0, "state": False, "pkeys/0": ()}
    found = {
        "gids/0": (port.guid, port.subnet),
        "rate": port.rate_gbps,
        "state": port.active,
        "pkeys/0": port.partitions,
    }
    assert found[file] == unknown[file]


def test_a_node_without_hcas_has_none(tmp_path: Path) -> None:
    assert hcas(tmp_path) == ()
