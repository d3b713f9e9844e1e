"""vNPUs are created and destroyed as claims need them; those of others are left alone."""

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import CardGone, InUse, NoRoom, Unsupported, Use
from kubeletplugin.hardware.actions import VnpuInstance
from kubeletplugin.hardware.ascend.dcmi import DcmiCode
from kubeletplugin.hardware.card import Card
from tests.fakes.dcmi.models import ASCEND_310P3, ASCEND_910A, ASCEND_910B3, ASCEND_910C
from tests.fakes.killed import dies
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine


def use(card: Card, profile: str = "vir05_1c_16g") -> Use:
    assert card.scheme
    return Use("claim", card, next(part for part in card.scheme.partitions if part.profile == profile))


def test_the_ids_of_a_chip_follow_from_its_number(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    _, second = hardware.cards()
    (action,) = hardware.actions(use(second), ())
    assert action == VnpuInstance(second.uuid, "vir05_1c_16g", 116)
    assert hardware.ensure(action) == {"id": "116"}
    assert machine.dcmi.vnpus(2) == {116: "vir05_1c_16g"}


def test_when_all_ids_are_taken_there_is_no_room(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    (card,) = hardware.cards()
    taken = [VnpuInstance(card.uuid, "vir05_1c_16g", number).key for number in range(100, 116)]
    with pytest.raises(NoRoom, match="100 to 115"):
        hardware.actions(use(card), taken)


def test_an_equal_vnpu_is_adopted_and_another_with_its_id_is_not(machine: Machine) -> None:
    machine.add(ASCEND_910B3, vdev_100="vir05_1c_16g 0", vdev_101="vir10_3c_32g 0")
    hardware = machine.start()
    (card,) = hardware.cards()
    assert hardware.ensure(VnpuInstance(card.uuid, "vir05_1c_16g", 100)) == {"id": "100"}
    with pytest.raises(
        NoRoom, match=r"101 exists already.* remove it with npu-smi set -t destroy-vnpu -i 0 -c 0 -v 101"
    ):
        hardware.ensure(VnpuInstance(card.uuid, "vir05_1c_16g", 101))
    hardware.release(VnpuInstance(card.uuid, "vir05_1c_16g", 101), None)
    assert machine.dcmi.vnpus(0) == {100: "vir05_1c_16g", 101: "vir10_3c_32g"}


def test_foreign_vnpus_are_observed_and_take_their_place(machine: Machine) -> None:
    machine.add(ASCEND_910B3, vdev_107="vir10_3c_32g 1", vdev_108="- 0")
    hardware = machine.start()
    (card,) = hardware.cards()
    found = hardware.observe(card).found
    assert [each.action for each in found] == [
        VnpuInstance(card.uuid, "vir10_3c_32g", 107),
        VnpuInstance(card.uuid, "", 108),
    ]
    hardware.ensure(VnpuInstance(card.uuid, "vir10_3c_32g", 100))
    remedy = "remove it with npu-smi set -t destroy-vnpu -i 0 -c 0 -v <id>"
    with pytest.raises(NoRoom, match=f"of card npu-0 is used by vNPU 100, 107; if no claim has it, {remedy}"):
        hardware.ensure(VnpuInstance(card.uuid, "vir05_1c_16g", 101))


def test_after_a_reboot_the_vnpus_that_come_back_are_adopted_and_the_others_are_made_again(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    (card,) = hardware.cards()
    actions = [VnpuInstance(card.uuid, "vir05_1c_16g", number) for number in (100, 101)]
    for action in actions:
        hardware.ensure(action)
    machine.dcmi.change({"chip.0.vdev.101": None})
    again = machine.start()
    for action in actions:
        again.ensure(action)
    assert machine.dcmi.vnpus(0) == {100: "vir05_1c_16g", 101: "vir05_1c_16g"}
    assert machine.dcmi.calls("dcmi_create_vdevice") == 3


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (DcmiCode.NOT_PERMITTED, TransientFault),
        (DcmiCode.NOT_SUPPORTED, Unsupported),
        (DcmiCode.NO_DEVICE, CardGone),
        (DcmiCode.INNER_ERROR, TransientFault),
        (-9999, TransientFault),
    ],
)
def test_a_creation_that_fails_says_who_must_act_and_leaves_nothing(
    machine: Machine, code: int, error: type[Exception]
) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    (card,) = hardware.cards()
    machine.dcmi.change({"fault.dcmi_create_vdevice": int(code)})
    with pytest.raises(error, match=card.uuid):
        hardware.ensure(VnpuInstance(card.uuid, "vir05_1c_16g", 100))
    assert machine.dcmi.vnpus(0) == {}


def test_a_vnpu_that_the_driver_says_is_occupied_is_in_use(machine: Machine) -> None:
    machine.add(ASCEND_910B3, vdev_100="vir05_1c_16g 0")
    hardware = machine.start()
    (card,) = hardware.cards()
    machine.dcmi.change({"fault.dcmi_set_destroy_vdevice": int(DcmiCode.OCCUPIED)})
    with pytest.raises(InUse):
        hardware.release(VnpuInstance(card.uuid, "vir05_1c_16g", 100), {"id": "100"})


def test_what_cannot_be_asked_is_tried_again(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    (card,) = hardware.cards()
    machine.dcmi.change({"fault.dcmi_get_device_info": int(DcmiCode.TIMEOUT)})
    for question in (
        lambda: hardware.observe(card),
        lambda: hardware.ensure(VnpuInstance(card.uuid, "vir05_1c_16g", 100)),
        lambda: hardware.release(VnpuInstance(card.uuid, "vir05_1c_16g", 100), None),
    ):
        with pytest.raises(TransientFault):
            question()


def test_a_vnpu_is_made_later_while_it_is_not_known_what_the_chip_can_be_divided_into(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    (card,) = machine.start().cards()
    machine.dcmi.change({"fault.dcmi_get_template_info_all": int(DcmiCode.TIMEOUT)})
    hardware = machine.start()
    action = VnpuInstance(card.uuid, "vir05_1c_16g", 100)
    with pytest.raises(TransientFault, match="dcmi_get_template_info_all"):
        hardware.ensure(action)
    machine.dcmi.change({"fault.dcmi_get_template_info_all": None})
    hardware.cards()
    assert hardware.ensure(action) == {"id": "100"}


def test_a_card_that_hangs_keeps_no_other_from_its_actions(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    first, _ = hardware.cards()
    machine.dcmi.change({"chip.2.fault": "hang"})
    hardware.ensure(VnpuInstance(first.uuid, "vir05_1c_16g", 100))
    assert machine.dcmi.vnpus(0) == {100: "vir05_1c_16g"}


def test_a_pair_cannot_be_divided(machine: Machine) -> None:
    machine.add(ASCEND_910C)
    hardware = machine.start()
    (card,) = hardware.cards()
    with pytest.raises(Unsupported, match="cannot do this"):
        hardware.ensure(VnpuInstance(card.uuid, "vir06_1c_16g", 100))


@pytest.mark.parametrize(
    ("changes", "excluded"),
    [
        ({}, {}),
        ({"chip.0.shared": 0}, {"share": "device-share"}),
        ({"chip.0.shared": None}, {}),
        ({"machines": 1}, {"partitions": "vnpu-mode"}),
        ({"symmetric": 1}, {"partitions": "SMP"}),
        ({"symmetric": 0}, {}),
        ({"machines": 1, "chip.0.shared": 0}, {"share": "device-share", "partitions": "vnpu-mode"}),
    ],
)
def test_the_modes_of_a_chip_narrow_what_it_is_offered_as(
    machine: Machine, changes: dict[str, int | None], excluded: dict[str, str]
) -> None:
    machine.add(ASCEND_910A)
    machine.dcmi.change(changes)
    hardware = machine.start()
    found = hardware.observe(hardware.cards()[0]).excluded
    assert found.keys() == excluded.keys()
    assert all(excluded[offer] in found[offer] for offer in found)


@pytest.mark.parametrize(
    ("function", "unread"),
    [
        ("dcmi_get_device_share_enable", {"share"}),
        ("dcmi_get_vdevice_mode", {"partitions"}),
        ("dcmi_get_npu_work_mode", {"partitions"}),
        ("dcmi_get_device_hbm_info", {"share", "partitions"}),
        ("dcmi_get_template_info_all", {"partitions"}),
    ],
)
def test_offers_that_depend_on_what_was_never_read_are_told_with_the_call(
    machine: Machine, function: str, unread: set[str]
) -> None:
    machine.add(ASCEND_910A)
    good = machine.start()
    (card,) = good.cards()
    good.observe(card)
    machine.dcmi.change({f"fault.{function}": int(DcmiCode.TIMEOUT)})
    hardware = machine.start()
    (found,) = hardware.cards()
    state = hardware.observe(found)
    assert state.unread.keys() == unread
    assert all(f"{function}: timeout (code -8006)" in why for why in state.unread.values())
    assert good.observe(card).unread == {}, "what was known holds"
    machine.dcmi.change({f"fault.{function}": None})
    (found,) = hardware.cards()
    assert hardware.observe(found) == good.observe(card)


def test_smp_mode_keeps_only_a_910a_from_being_divided(machine: Machine) -> None:
    machine.add(ASCEND_310P3)
    machine.dcmi.change({"symmetric": 1})
    hardware = machine.start()
    assert hardware.observe(hardware.cards()[0]).excluded == {}


@pytest.mark.parametrize("operation", ["ensure", "release"])
@pytest.mark.parametrize("kill", ["kill", "kill.after"])
def test_killed_at_any_call_the_next_start_completes_it(machine: Machine, operation: str, kill: str) -> None:
    before = {100: "vir05_1c_16g"} if operation == "ensure" else {100: "vir05_1c_16g", 101: "vir05_1c_16g"}
    after = {100: "vir05_1c_16g", 101: "vir05_1c_16g"} if operation == "ensure" else {100: "vir05_1c_16g"}
    machine.add(ASCEND_910B3)

    def work() -> None:
        hardware = machine.start()
        action = VnpuInstance(hardware.cards()[0].uuid, "vir05_1c_16g", 101)
        hardware.ensure(action) if operation == "ensure" else hardware.release(action, {"id": "101"})

    machine.start().cards()  # loads the library, which the processes of the work inherit
    call, died = 0, True
    while died:
        call += 1
        machine.dcmi.change({"chip.0.vdev": None})
        machine.dcmi.change({f"chip.0.vdev.{number}": f"{name} 0" for number, name in before.items()})
        machine.dcmi.change({kill: machine.dcmi.calls() + call})
        died = dies(work)
        assert machine.dcmi.vnpus(0) in (before, after)
        machine.dcmi.change({kill: None})
        for _ in range(2):
            work()
        assert machine.dcmi.vnpus(0) == after
    assert call > 10
