"""Containers get the device files of their chips or vNPU, the driver's files, and nothing by their image's wish."""

import pytest

from kubeletplugin.hardware import CardGone, Use
from kubeletplugin.hardware.card import Card
from tests.fakes.dcmi.models import ASCEND_310B, ASCEND_310P3, ASCEND_910A, ASCEND_910B3, ASCEND_910C, Model
from tests.unit.kubeletplugin.hardware.ascend.machine import MANAGERS, Machine


def files(machine: Machine, card: Card) -> list[tuple[str, str]]:
    edits = machine.start().edits(Use("claim", card), {})
    return [(node.host_path, node.path) for node in edits.device_nodes]


@pytest.mark.parametrize("model", [ASCEND_310P3, ASCEND_910A, ASCEND_910B3], ids=lambda model: model.name)
def test_a_whole_card_has_its_chip_and_the_managers(machine: Machine, model: Model) -> None:
    machine.add(model)
    machine.add(model)
    _, second = machine.start().cards()
    names = ["davinci1", *MANAGERS]
    assert files(machine, second) == [(f"/dev/{name}", f"/dev/{name}") for name in names]


def test_a_pair_has_both_dies(machine: Machine) -> None:
    machine.add(ASCEND_910C)
    (card,) = machine.start().cards()
    assert files(machine, card)[:2] == [("/dev/davinci0", "/dev/davinci0"), ("/dev/davinci1", "/dev/davinci1")]


def test_a_vnpu_is_a_chip_in_its_container(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    (card,) = hardware.cards()
    assert card.scheme
    use = Use("claim", card, card.scheme.partitions[0])
    (action,) = hardware.actions(use, ())
    edits = hardware.edits(use, {action.key: hardware.ensure(action)})
    assert (edits.device_nodes[0].host_path, edits.device_nodes[0].path) == ("/dev/vdavinci100", "/dev/davinci100")
    assert "/dev/davinci0" not in {node.path for node in edits.device_nodes}


def test_a_310b_has_managers_of_its_own(machine: Machine) -> None:
    machine.add(ASCEND_310B)
    machine.files.more |= {"davinci_manager_docker", "svm0", "ts_aisle", "hdmi"}
    (card,) = machine.start().cards()
    assert files(machine, card) == [
        ("/dev/davinci0", "/dev/davinci0"),
        ("/dev/davinci_manager_docker", "/dev/davinci_manager"),
        ("/dev/svm0", "/dev/svm0"),
        ("/dev/ts_aisle", "/dev/ts_aisle"),
        ("/dev/hdmi", "/dev/hdmi"),
        ("/dev/dvpp_cmdlist", "/dev/dvpp_cmdlist"),
    ]


def test_device_files_that_a_node_does_not_have_are_left_out_unless_they_are_needed(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    (card,) = machine.start().cards()
    machine.files.missing |= {"dvpp_cmdlist"}
    assert [host for host, _ in files(machine, card)][1:] == ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]
    machine.files.missing |= {"davinci_manager"}
    with pytest.raises(CardGone, match="/dev/davinci_manager"):
        files(machine, card)


def test_the_drivers_files_that_the_host_has_are_mounted_read_only(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.has("/usr/local/Ascend/driver/lib64", "/usr/local/bin/npu-smi")
    hardware = machine.start()
    edits = hardware.edits(Use("claim", hardware.cards()[0]), {})
    assert [mount.host_path for mount in edits.mounts] == ["/usr/local/Ascend/driver/lib64", "/usr/local/bin/npu-smi"]
    assert all(mount.container_path == mount.host_path and "ro" in mount.options for mount in edits.mounts)
    assert edits.env == (("ASCEND_VISIBLE_DEVICES", "void"),)


def test_a_chip_whose_device_file_cannot_be_looked_at_is_as_it_was(machine: Machine) -> None:
    for _ in range(2):
        machine.add(ASCEND_910B3)
    known = machine.start()
    cards = known.cards()
    machine.files.state.change({"davinci1.fault": "EIO"})
    assert known.cards() == cards
    assert all(health.healthy for health in known.health().values())
    new = machine.start()
    assert new.cards() == cards[:1]
    assert ["device file cannot be looked at" in why for why in new.unread_cards()] == [True]
    machine.files.state.change({"davinci1": None})
    assert new.cards() == cards
    assert new.unread_cards() == ()


@pytest.mark.parametrize("error", ["ENOENT", "EIO"])
def test_a_chip_stays_where_it_was_while_sysfs_does_not_answer(machine: Machine, error: str) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    cards = hardware.cards()
    assert (cards[0].pcie_root, cards[0].numa_node) == ("pci0000:80", 0)
    machine.sysfs.state.change({"fault.read": error, "fault.way": error})
    assert hardware.cards() == cards
