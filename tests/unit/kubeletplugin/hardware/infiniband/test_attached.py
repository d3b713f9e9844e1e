"""Cards say which fabric and rail they are attached to."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from driver.observe import logger
from kubeletplugin.hardware import Use
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware
from kubeletplugin.hardware.infiniband import Attachments
from kubeletplugin.hardware.infiniband.attached import READ_AGAIN_SECONDS
from kubeletplugin.hardware.simulated import SimulatedHardware, profile_from
from tests.fakes.erring_files import ErringSysfs
from tests.fakes.sysfs_tree import add_function, add_hca
from tests.simulation.clock import VirtualClock

PROFILE = """
defaults: {vendor: nvidia, type: H100, model: H100, architecture: Hopper, memoryMiB: 81559, driverVersion: "1"}
cards:
- {index: 0, pciBusID: "0000:18:00.0", pcieRoot: "pci0000:15"}
- {index: 1, pciBusID: "0000:9a:00.0", pcieRoot: "pci0000:97"}
- {index: 2, pciBusID: "0000:db:00.0", pcieRoot: "pci0000:d7", rail: rail-7}
"""


class Machine:
    """Three cards: two with an HCA on their PCIe root, and one whose backend reports its rail."""

    def __init__(self, root: Path, *exclude: str) -> None:
        self.root, self.clock = root, VirtualClock()
        for way in (("pci0000:15", "0000:18:00.0"), ("pci0000:97", "0000:9a:00.0"), ("pci0000:d7", "0000:db:00.0")):
            add_function(root, *way)
        backend = SimulatedHardware(profile_from(PROFILE, "profile"), "n1")
        self.sysfs = ErringSysfs(str(root))
        infiniband = Attachments(self.sysfs, exclude, self.clock, logger("test"))
        self.hardware = CombinedHardware([BackendChoice("gpus", lambda: True, lambda: backend)], infiniband.attached)

    def attached(self) -> list[tuple[str, str]]:
        return [(card.ib_cluster, card.rail) for card in self.hardware.cards()]


def test_cards_have_the_rail_of_the_hca_on_their_root_and_the_fabric_of_the_node(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:97", "0000:99:00.0")
    add_hca(tmp_path, "mlx5_1", "pci0000:15", "0000:19:00.0")
    assert Machine(tmp_path).attached() == [
        ("fec0000000000001", "rail-0"),
        ("fec0000000000001", "rail-1"),
        ("fec0000000000001", "rail-7"),
    ]


def test_excluded_hcas_count_neither_for_the_fabric_nor_for_rails(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_9", "pci0000:15", "0000:16:00.0", subnet="fec0:0000:0000:0009")
    add_hca(tmp_path, "mlx5_1", "pci0000:15", "0000:19:00.0")
    assert Machine(tmp_path, "mlx5_9").attached()[0] == ("fec0000000000001", "rail-0")


def test_a_node_without_infiniband_changes_no_card(tmp_path: Path) -> None:
    assert Machine(tmp_path).attached() == [("", ""), ("", ""), ("", "rail-7")]


def test_a_port_that_comes_up_is_seen_after_a_while(tmp_path: Path) -> None:
    port = add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0", state="2: INIT")
    machine = Machine(tmp_path)
    assert machine.attached()[0] == ("", "rail-0")
    (port / "state").write_text("4: ACTIVE\n")
    machine.clock.sleep(READ_AGAIN_SECONDS)
    assert machine.attached()[0] == ("fec0000000000001", "rail-0")


def test_the_ports_are_logged_when_they_change_and_only_then(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0", partitions=("0xffff", "0x8012"))
    machine = Machine(tmp_path)
    with capture_logs() as logs:
        for _ in range(3):
            machine.attached()
            machine.clock.sleep(READ_AGAIN_SECONDS)
    (line,) = logs
    assert line == {
        "event": "InfiniBand port",
        "log_level": "info",
        "component": "test",
        "hca": "mlx5_0",
        "port": 1,
        "rail": "rail-0",
        "guid": "0c42a10300abcd12",
        "subnet": "fec0000000000001",
        "active": True,
        "rate_gbps": 400,
        "partitions": ["0x8012", "0xffff"],
    }


def test_a_fabric_with_the_default_prefix_is_unknown_and_the_remedy_is_logged(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0", subnet="fe80:0000:0000:0000")
    with capture_logs() as logs:
        assert Machine(tmp_path).attached()[0] == ("", "rail-0")
    assert ["nodeLabels.ibCluster" in line.get("remedy", "") for line in logs] == [False, True]


def test_health_and_device_files_are_those_of_the_backend(tmp_path: Path) -> None:
    hardware = Machine(tmp_path).hardware
    assert all(health.healthy for health in hardware.health().values())
    card = hardware.cards()[0]
    edits = hardware.of_card(card.uuid).edits(Use("claim", card), {})
    assert [node.path for node in edits.device_nodes] == ["/dev/lode/gpu-0"]


@pytest.mark.parametrize(
    "errors",
    [
        {"mlx5_0.fault.read": "EIO"},
        {"mlx5_0.fault.way": "ENOENT"},
        {"fault.listed": "EMFILE"},
        {f"fault.{question}": "EIO" for question in ("read", "way", "listed")},
    ],
    ids=["file", "link", "folder", "all"],
)
def test_an_hca_that_cannot_be_read_keeps_its_rail_and_moves_no_other(tmp_path: Path, errors: dict[str, str]) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0")
    add_hca(tmp_path, "mlx5_1", "pci0000:97", "0000:99:00.0")
    machine = Machine(tmp_path)
    known = machine.attached()
    assert [rail for _, rail in known] == ["rail-0", "rail-1", "rail-7"]
    machine.sysfs.state.change(errors)
    machine.clock.advance(READ_AGAIN_SECONDS)
    with capture_logs() as logs:
        assert machine.attached() == known
        machine.clock.advance(READ_AGAIN_SECONDS)
        assert machine.attached() == known
    assert ["cannot be read" in line["event"] for line in logs] == [True]
    machine.sysfs.state.change(dict.fromkeys(errors))
    machine.clock.advance(READ_AGAIN_SECONDS)
    assert machine.attached() == known


def test_no_rail_is_told_while_an_hca_was_never_read(tmp_path: Path) -> None:
    add_hca(tmp_path, "mlx5_0", "pci0000:15", "0000:19:00.0")
    add_hca(tmp_path, "mlx5_1", "pci0000:97", "0000:99:00.0")
    machine = Machine(tmp_path)
    machine.sysfs.state.change({"mlx5_0.fault.read": "EIO"})
    assert machine.attached() == [("", ""), ("", ""), ("", "rail-7")]
