"""Cards are found through DCMI, whatever a driver lacks."""

import itertools
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.ascend.backend import AscendHardware
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiCode, DcmiError, Die
from kubeletplugin.hardware.guarded import Guard
from kubeletplugin.hardware.known_answers import FIRST_PAUSE_SECONDS
from tests.fakes.dcmi.models import (
    ASCEND_310B,
    ASCEND_310P3,
    ASCEND_910A,
    ASCEND_910B3,
    ASCEND_910B4,
    ASCEND_910B4_1,
    ASCEND_910C,
    EVERY_MODEL,
    Model,
)
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine

OPTIONAL = (
    "dcmi_get_driver_version",
    "dcmi_get_device_chip_info_v2",
    "dcmi_get_device_board_info",
    "dcmi_get_device_pcie_info_v2",
    "dcmi_get_topo_info_by_device_id",
    "dcmi_get_device_hbm_info",
    "dcmi_get_device_memory_info_v3",
    "dcmi_get_device_info",
    "dcmi_get_template_info_all",
    "dcmi_get_multi_die_policy",
    "dcmi_get_vdevice_mode",
    "dcmi_get_npu_work_mode",
    "dcmi_get_device_share_enable",
    "dcmi_get_device_health",
    "dcmi_get_device_errorcode_v2",
    "dcmi_get_device_current_fault_event",
)
"""Functions without which a card is still found and served."""


def only(machine: Machine, without: Collection[str] = ()) -> Card:
    (card,) = machine.start(without).cards()
    return card


def test_a_card_is_published_with_all_that_the_driver_says(machine: Machine) -> None:
    machine.add(ASCEND_910B3, superpod=7)
    card = only(machine)
    assert (card.name, card.uuid) == ("npu-0", "A1B2C3D4-20A00E23-15380A14-CC0300A4-00000000")
    assert (card.vendor, card.type, card.model, card.architecture) == ("huawei", "910B", "Ascend 910B3", "Da Vinci")
    assert (card.memory_mib, card.driver_version) == (65536, "25.2.0")
    assert (card.pci_bus_id, card.pcie_root, card.numa_node) == ("0000:81:00.0", "pci0000:80", 0)
    assert card.nvlink_domain == "super-pod-7"


SYSTEM, HCCS, HCCS_SWITCH = 1, 3, 7


def linked(machine: Machine, *kinds: int) -> None:
    """Add three cards, of which these are the ways from the first to the second, to the third, and between those."""
    chips = [number for _ in range(3) for number in machine.add(ASCEND_910B3)]
    pairs = itertools.combinations(chips, 2)
    machine.dcmi.change({f"chip.{one}.topo.{other}": kind for (one, other), kind in zip(pairs, kinds, strict=True)})


def domains_of(hardware: AscendHardware) -> list[str]:
    return [card.nvlink_domain for card in hardware.cards()]


def test_cards_that_reach_one_another_over_hccs_are_one_domain(machine: Machine) -> None:
    linked(machine, HCCS, SYSTEM, HCCS_SWITCH)
    assert domains_of(machine.start()) == ["hccs-A1B2C3D4-20A00E23-15380A14-CC0300A4-00000000"] * 3
    machine.dcmi.change({"chip.2.topo.4": SYSTEM})
    first, second, third = domains_of(machine.start())
    assert first == second
    assert third == ""


def test_cards_of_a_super_pod_are_of_its_domain_also_on_one_node(machine: Machine) -> None:
    linked(machine, HCCS, HCCS, HCCS)
    machine.dcmi.change({f"chip.{chip}.superpod": 7 for chip in (0, 2)})
    first, second, third = domains_of(machine.start())
    assert (first, second) == ("super-pod-7", "super-pod-7")
    assert third.startswith("hccs-")


def test_a_link_that_was_known_holds_unless_the_driver_says_that_it_has_none(machine: Machine) -> None:
    linked(machine, HCCS, HCCS, HCCS)
    hardware = machine.start()
    before = domains_of(hardware)
    machine.dcmi.change({"fault.dcmi_get_topo_info_by_device_id": DcmiCode.INNER_ERROR.value})
    assert domains_of(hardware) == before
    assert domains_of(machine.start()) == ["", "", ""]
    machine.dcmi.change({"fault.dcmi_get_topo_info_by_device_id": None})
    assert domains_of(machine.start()) == before


@pytest.mark.parametrize(
    ("model", "type_", "scheme", "slots"),
    [
        (ASCEND_310P3, "310P", "vnpu-310p", 7 + 4 + 3 + 2 + 2 + 1 + 1),
        (ASCEND_910A, "910A", "vnpu-910a", 15 + 7 + 3 + 1),
        (ASCEND_910B3, "910B", "vnpu-910b3", 4 + 2),
        (ASCEND_910B4, "910B", "vnpu-910b4", 4 + 2 + 2 + 1),
        (ASCEND_910B4_1, "910B", "vnpu-910b3", 4 + 2),
        (ASCEND_310B, "310B", None, 0),
    ],
    ids=lambda value: value.name if isinstance(value, Model) else None,
)
def test_chips_are_divided_as_their_generation_allows(
    machine: Machine, model: Model, type_: str, scheme: str | None, slots: int
) -> None:
    machine.add(model)
    card = only(machine)
    assert (card.type, card.scheme and card.scheme.name) == (type_, scheme)
    assert len(card.scheme.partitions if card.scheme else ()) == slots


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda model: model.name)
def test_what_the_driver_lists_is_what_the_built_in_table_says(machine: Machine, model: Model) -> None:
    machine.add(model)
    with capture_logs() as logs:
        from_driver = machine.start().cards()
        from_table = machine.start(without=["dcmi_get_template_info_all"]).cards()
    assert from_driver == from_table
    missing = "the driver lists no vNPU templates; those of the built-in table"
    assert [missing in line["problem"] for line in logs] == [True for card in from_table if card.scheme]


@pytest.mark.parametrize("function", OPTIONAL)
def test_a_driver_that_lacks_a_function_has_its_cards_served(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    whole = only(machine)
    hardware = machine.start(without=[function])
    (card,) = hardware.cards()
    assert (card.uuid, card.type, card.model) == (whole.uuid, whole.type, whole.model)
    assert set(hardware.health()) == {"npu-0"}
    hardware.observe(card)


@pytest.mark.parametrize("code", [DcmiCode.NOT_SUPPORTED, DcmiCode.INNER_ERROR, DcmiCode.NOT_PERMITTED, -9999])
def test_functions_that_fail_cost_their_values_only(machine: Machine, code: int) -> None:
    machine.add(ASCEND_910B3)
    needed = {"dcmi_get_device_chip_info_v2", "dcmi_get_device_board_info"}
    machine.dcmi.change({f"fault.{function}": int(code) for function in OPTIONAL if function not in needed})
    card = only(machine)
    assert (card.type, card.memory_mib, card.pci_bus_id, card.driver_version) == ("910B", 0, "", "")


def test_while_it_is_not_known_whether_dies_are_given_together_none_is(machine: Machine) -> None:
    machine.add(ASCEND_910C)
    machine.dcmi.change({"fault.dcmi_get_multi_die_policy": int(DcmiCode.TIMEOUT)})
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    with capture_logs() as logs:
        assert [card.name for card in hardware.cards()] == ["npu-2"], "the card of another kind does not wait for it"
    assert any("multi_die_policy" in line["problem"] for line in logs)
    machine.dcmi.change({"fault.dcmi_get_multi_die_policy": None})
    assert [card.name for card in hardware.cards()] == ["npu-0", "npu-2"]


def test_a_driver_that_lacks_values_has_cards_with_unknown_ones(machine: Machine) -> None:
    machine.dcmi.change({"driver": None})
    machine.add(ASCEND_910B3, hbm=None, pci=None, board=None, total=None)
    card = only(machine, without=["dcmi_get_template_info_all"])
    assert (card.memory_mib, card.pci_bus_id, card.pcie_root, card.driver_version) == (0, "", "", "")
    assert card.numa_node is None


def test_a_chip_that_cannot_be_read_is_reported_and_the_others_are_found(machine: Machine) -> None:
    for _ in range(3):
        machine.add(ASCEND_910B3)
    machine.dcmi.change({"chip.2.fault": int(DcmiCode.INNER_ERROR)})
    hardware = machine.start()
    with capture_logs() as logs:
        for _ in range(2):
            assert [card.name for card in hardware.cards()] == ["npu-0", "npu-2"]
    (line,) = logs
    assert line["log_level"] == "warning"
    assert "card 1, chip 0" in line["problem"]


def test_a_chip_without_its_device_file_is_reported_and_not_offered(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.add(ASCEND_910B3)
    machine.files.missing.add("davinci1")
    with capture_logs() as logs:
        assert [card.name for card in machine.start().cards()] == ["npu-0"]
    assert "/dev/davinci1" in logs[0]["problem"]


def test_a_card_keeps_its_identity_when_chips_are_numbered_anew(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    before = {card.uuid: card.index for card in hardware.cards()}
    machine.dcmi.change({"chip.0.physical": 1, "chip.2.physical": 0})
    after = {card.uuid: card.index for card in hardware.cards()}
    assert before.keys() == after.keys()
    assert [after[uuid] for uuid in before] == [1 - index for index in before.values()]


def test_what_never_changes_is_read_once(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    for _ in range(5):
        hardware.cards()
    assert machine.dcmi.calls("dcmi_get_device_hbm_info") == 1
    assert machine.dcmi.calls("dcmi_get_device_die_v2") == 5


ONCE = (*OPTIONAL[:9], "dcmi_get_device_die_v2", "dcmi_get_device_logic_id", "dcmi_get_card_list")


@pytest.mark.parametrize("function", ONCE)
@pytest.mark.parametrize("model", [ASCEND_310P3, ASCEND_910B3, ASCEND_910C], ids=lambda model: model.name)
def test_after_an_error_of_a_moment_the_cards_are_as_a_new_process_finds_them(
    machine: Machine, function: str, model: Model
) -> None:
    machine.add(model)
    hardware = machine.start()
    machine.dcmi.change({f"fault.{function}": int(DcmiCode.TIMEOUT)})
    with suppress(TransientFault):
        hardware.cards()
    machine.dcmi.change({f"fault.{function}": None})
    assert hardware.cards() == machine.start().cards()


@pytest.mark.parametrize("function", ONCE)
def test_what_was_known_of_a_chip_stays_while_it_is_not_answered(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    hardware = machine.start()
    known = hardware.cards()
    machine.dcmi.change({f"fault.{function}": int(DcmiCode.TIMEOUT)})
    for _ in range(3):
        assert hardware.cards() == known
        machine.clock.advance(600)


@pytest.mark.parametrize("function", ["dcmi_get_device_hbm_info", "dcmi_get_template_info_all", "dcmi_get_device_info"])
def test_a_chip_of_which_a_fact_is_not_known_is_not_divided_as_another_chip(machine: Machine, function: str) -> None:
    machine.add(ASCEND_910B3)
    machine.dcmi.change({f"fault.{function}": int(DcmiCode.TIMEOUT)})
    hardware = machine.start()
    (card,) = hardware.cards()
    assert card.scheme is None
    assert f"{function}: timeout (code -8006)" in card.partitions_unread
    assert f"{function}: timeout (code -8006)" in hardware.health()["npu-0"].message


def test_a_card_that_could_not_be_read_is_not_gone(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    (card,) = machine.start().cards()
    machine.dcmi.change({"fault.dcmi_get_device_chip_info_v2": int(DcmiCode.TIMEOUT)})
    hardware = machine.start()
    assert hardware.cards() == ()
    assert any("dcmi_get_device_chip_info_v2: timeout" in why for why in hardware.unread_cards())
    with pytest.raises(TransientFault, match="dcmi_get_device_chip_info_v2"):
        hardware.observe(card)
    machine.dcmi.change({"fault.dcmi_get_device_chip_info_v2": None})
    machine.clock.advance(FIRST_PAUSE_SECONDS)
    assert hardware.cards() == (card,)
    assert hardware.unread_cards() == ()


class TestPairs:
    """The dies of a 910C."""

    def test_are_one_card_with_both(self, machine: Machine) -> None:
        machine.add(ASCEND_910C)
        machine.add(ASCEND_910C)
        first, second = machine.start().cards()
        assert (first.type, first.model, first.memory_mib) == ("910C", "Ascend910", 131072)
        assert (first.name, second.name) == ("npu-0", "npu-2")
        assert first.scheme is None

    def test_are_cards_of_their_own_where_the_node_says_so(self, machine: Machine) -> None:
        machine.add(ASCEND_910C)
        machine.dcmi.change({"independent": 1})
        cards = machine.start().cards()
        assert [(card.name, card.type, card.memory_mib) for card in cards] == [
            ("npu-0", "910C", 65536),
            ("npu-1", "910C", 65536),
        ]

    def test_are_given_together_by_drivers_without_a_policy(self, machine: Machine) -> None:
        machine.add(ASCEND_910C)
        machine.dcmi.change({"independent": 1})
        assert len(machine.start(without=["dcmi_get_multi_die_policy"]).cards()) == 1

    def test_are_not_offered_when_one_cannot_be_used(self, machine: Machine) -> None:
        machine.add(ASCEND_910C)
        machine.add(ASCEND_910C)
        machine.dcmi.change({"chip.1.lost": 1})
        with capture_logs() as logs:
            assert [card.name for card in machine.start().cards()] == ["npu-2"]
        assert any("both are needed" in line["problem"] for line in logs)

    def test_of_another_chip_are_cards_of_their_own(self, machine: Machine) -> None:
        machine.dcmi.add(ASCEND_310P3)
        machine.dcmi.change({"chip.1.physical": 1, "chip.1.vdie": "B-0-0-0-1", "chip.1.name": "310P3"})
        assert [card.name for card in machine.start().cards()] == ["npu-0", "npu-1"]


def test_a_library_that_cannot_be_loaded_or_does_not_begin_is_asked_again(machine: Machine) -> None:
    machine.add(ASCEND_910B3)
    absent = machine.start(library="/nowhere/libdcmi.so")
    with pytest.raises(DcmiError, match=r"/nowhere/libdcmi\.so"):
        absent.cards()
    machine.dcmi.change({"fault.dcmi_init": int(DcmiCode.INNER_ERROR)})
    hardware = machine.start()
    with pytest.raises(TransientFault, match="dcmi_init"):
        hardware.cards()
    machine.dcmi.change({"fault.dcmi_init": None})
    assert len(hardware.cards()) == 1


def test_the_id_that_means_every_vnpu_is_never_destroyed(machine: Machine) -> None:
    machine.add(ASCEND_910B3, vdev_100="vir05_1c_16g 0")
    with pytest.raises(ValueError, match="65535"):
        Dcmi(str(machine.dcmi.library())).destroy_vnpu(Die(0, 0), 0xFFFF)
    assert machine.dcmi.vnpus(0) == {100: "vir05_1c_16g"}


def test_a_node_without_chips_has_no_cards(machine: Machine) -> None:
    assert machine.start().cards() == ()


T = TypeVar("T")


class InHaste:
    """Waits for answers about one subject for a moment, and about others as long as it takes."""

    def __init__(self, subject: str) -> None:
        self._guard = Guard(60)
        self._subject = subject

    def __call__(self, subject: str, question: Callable[[], T]) -> T:
        return self._guard(subject, question, 0.05 if subject == self._subject else None)


def test_a_chip_that_hangs_when_the_plugin_starts_hides_no_other(machine: Machine) -> None:
    machine.add(ASCEND_310P3)
    machine.add(ASCEND_310P3)
    machine.dcmi.change({"chip.0.fault.dcmi_get_device_die_v2": "hang"})
    hardware = machine.start(ask=InHaste("card 0, chip 0"))
    try:
        assert [card.name for card in hardware.cards()] == ["npu-1"]
        assert hardware.health()["npu-1"].healthy
    finally:
        machine.dcmi.change({"chip.0.fault.dcmi_get_device_die_v2": None})
    while len(hardware.cards()) < 2:
        pass


def test_a_chip_whose_health_hangs_is_lost_and_the_others_are_not(machine: Machine) -> None:
    machine.add(ASCEND_310P3)
    machine.add(ASCEND_310P3)
    hardware = machine.start(ask=InHaste(f"chip {machine.dcmi.state()['chip.0.vdie']}"))
    machine.dcmi.change({"chip.0.fault.dcmi_get_device_health": "hang"})
    try:
        health = hardware.health()
        assert (health["npu-0"].state, health["npu-1"].state) == ("fatal", "healthy")
        assert "did not answer" in health["npu-0"].message
    finally:
        machine.dcmi.change({"chip.0.fault.dcmi_get_device_health": None})
    while not hardware.health()["npu-0"].healthy:
        pass
