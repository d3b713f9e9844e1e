"""What NVML does not answer is not taken for an answer: it is as it was known before, and asked again."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from driver.kinds import EVERY_OFFER
from kubeletplugin.hardware import Card, Hardware, Unsupported, Use
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.nvidia.backend import MigUse
from tests.fakes.erring_files import ErringRoot
from tests.fakes.nvml.models import A100, H100, L4, Model
from tests.fakes.state import MemoryState
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

UNKNOWN, TIMEOUT, RESET_REQUIRED, NO_PERMISSION, INSUFFICIENT_MEMORY = 999, 10, 16, 4, 20
NOT_SUPPORTED, INVALID_ARGUMENT = 3, 2
PASSING = (UNKNOWN, TIMEOUT, RESET_REQUIRED, NO_PERMISSION, INSUFFICIENT_MEMORY)
FACTS = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetName",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
)
SHOWN = (
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetName",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlSystemGetCudaDriverVersion_v2",
)
"""Facts that no offer depends on."""
ONE_LINK: Mapping[str, str | int | None] = {
    "gpu.0.nvlink.0.state": 1,
    "gpu.0.nvlink.0.peer": "0000:28:00.0",
    "gpu.1.nvlink.0.state": 1,
    "gpu.1.nvlink.0.peer": "0000:18:00.0",
}

Bench = Callable[..., NvidiaBench]


@pytest.fixture
def bench_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))

    def made(model: Model = H100, mig: MigUse = "dynamic") -> NvidiaBench:
        bench = NvidiaBench(tmp_path, model, 2, mig=mig)
        bench.nvml.change(ONE_LINK)
        return bench

    return made


def fail(bench: NvidiaBench, function: str, code: int | None = UNKNOWN) -> None:
    bench.nvml.change({f"fault.{function}": code})


def partitions(card: Card) -> list[str]:
    return [card.part_name(part) for part in card.scheme.partitions] if card.scheme else []


@pytest.mark.parametrize(
    ("function", "code"),
    [*((function, UNKNOWN) for function in FACTS), *(("nvmlDeviceGetName", code) for code in PASSING[1:])],
)
def test_a_fact_that_was_not_answered_is_known_at_the_next_look(bench_of: Bench, function: str, code: int) -> None:
    bench = bench_of()
    hardware = bench.start()
    fail(bench, function, code)
    hardware.cards()
    fail(bench, function, None)
    assert hardware.cards() == bench.start().cards()


@pytest.mark.parametrize("function", FACTS)
def test_a_fact_that_was_known_stays_known_while_it_is_not_answered(bench_of: Bench, function: str) -> None:
    bench = bench_of()
    hardware = bench.start()
    before = [replace(card, driver_version="") for card in hardware.cards()]
    fail(bench, function)
    bench.nvml.change({"driver": "590.1"})  # so everything is read anew
    for _ in range(3):
        assert [replace(card, driver_version="") for card in hardware.cards()] == before
        bench.clock.advance(60)
    fail(bench, function, None)
    assert hardware.cards() == bench.start().cards()


@pytest.mark.parametrize("function", FACTS)
def test_the_same_fact_is_asked_again_with_growing_pauses(bench_of: Bench, function: str) -> None:
    bench = bench_of()
    fail(bench, function)
    hardware = bench.start()
    calls = []
    for _ in range(60):
        before = bench.nvml.calls()
        hardware.cards()
        calls.append(bench.nvml.calls() - before)
        bench.clock.advance(1)
    assert sum(count > 20 for count in calls) < 10
    fail(bench, function, None)
    bench.clock.advance(60)
    assert hardware.cards() == bench.start().cards()


@pytest.mark.parametrize("function", SHOWN)
def test_a_card_whose_shown_facts_are_never_answered_is_offered_with_them_unknown(
    bench_of: Bench, function: str
) -> None:
    bench = bench_of()
    fail(bench, function)
    with capture_logs() as logs:
        hardware = bench.start()
        cards = hardware.cards()
    assert [(card.name, len(partitions(card))) for card in cards] == [("gpu-0", 25), ("gpu-1", 25)]
    assert all(hardware.observe(card).excluded == {} for card in cards)
    (told,) = [line["reasons"] for line in logs if "not everything about cards is known" in line["event"]]
    assert any("code 999" in reason for reason in told)
    assert "code 999" in hardware.health()["gpu-0"].message
    assert hardware.health()["gpu-0"].healthy


def test_a_share_of_unknown_size_is_withheld_and_the_rest_is_offered(bench_of: Bench) -> None:
    bench = bench_of()
    fail(bench, "nvmlDeviceGetMemoryInfo")
    hardware = bench.start()
    card = hardware.cards()[0]
    state = hardware.observe(card)
    assert (state.excluded, set(state.unread)) == ({}, {"share"})
    assert "nvmlDeviceGetMemoryInfo" in state.unread["share"]
    assert "code 999" in state.unread["share"]
    assert len(partitions(card)) == 25


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    ],
)
def test_partitions_that_were_never_read_are_not_said_to_be_none(bench_of: Bench, function: str) -> None:
    bench = bench_of()
    action = MigInstance(bench.start().cards()[0].uuid, "1g.10gb", 6)
    for each in (MigMode(action.card), action):
        bench.start().ensure(each)
    fail(bench, function)
    hardware = bench.start()
    card = hardware.cards()[0]
    assert card.scheme is None
    assert "code 999" in card.partitions_unread
    with pytest.raises(TransientFault, match="code 999"):
        hardware.observe(card)
    with pytest.raises(TransientFault, match="code 999"):
        hardware.release(action, None)
    with pytest.raises((TransientFault, Unsupported)):
        hardware.actions(Use("claim", card), ())
    assert bench.nvml.instances(0) == [("1g.10gb", 6, True)]


def test_how_the_mode_is_turned_on_is_not_guessed(bench_of: Bench) -> None:
    bench = bench_of()
    good = bench.start().cards()[0]
    assert good.scheme
    fail(bench, "nvmlDeviceGetCudaComputeCapability")
    hardware = bench.start()
    card = hardware.cards()[0]
    assert "code 999" in card.partitions_unread
    assert "code 999" in hardware.observe(card).unread["partitions"]
    with pytest.raises(TransientFault, match="code 999"):
        hardware.actions(Use("claim", good, good.scheme.partitions[0]), ())
    bench.nvml.change({"gpu.0.mig": "1 1"})
    with pytest.raises(TransientFault, match="code 999"):
        hardware.release(MigMode(card.uuid), None)


@pytest.mark.parametrize("code", PASSING)
def test_a_mode_that_is_not_read_is_not_taken_for_none(bench_of: Bench, code: int) -> None:
    bench = bench_of()
    hardware = bench.start()
    card = hardware.cards()[0]
    action = MigInstance(card.uuid, "1g.10gb", 6)
    for each in (MigMode(card.uuid), action):
        hardware.ensure(each)
    fail(bench, "nvmlDeviceGetMigMode", code)
    for call in (
        lambda: hardware.release(action, None),
        lambda: hardware.release(MigMode(card.uuid), None),
        lambda: hardware.observe(card),
        lambda: hardware.actions(Use("claim", card), ()),
    ):
        with pytest.raises(TransientFault, match=f"nvmlDeviceGetMigMode.*code {code}"):
            call()
    fail(bench, "nvmlDeviceGetMigMode", None)
    for each in (action, MigMode(card.uuid)):
        hardware.release(each, None)
    assert (bench.nvml.instances(0), bench.nvml.state()["gpu.0.mig"]) == ([], "0 0")


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetGpuInstances",
        "nvmlGpuInstanceGetInfo",
        "nvmlGpuInstanceGetComputeInstances",
        "nvmlDeviceGetMigMode",
    ],
)
def test_existing_instances_stay_offered_while_they_are_not_listed(bench_of: Bench, function: str) -> None:
    bench = bench_of(mig="static")
    bench.nvml.change({"gpu.0.mig": "1 1", "gpu.0.gi.3": "14 0 2", "gpu.0.gi.3.ci.0": "0"})
    hardware = bench.start()
    before = hardware.cards()
    assert partitions(before[0]) == ["gpu-0-mig-2g-20gb-0"]
    fail(bench, function)
    assert hardware.cards() == before
    new = bench.start()
    card = new.cards()[0]
    assert (card.scheme, "code 999" in card.partitions_unread) == (None, True)
    fail(bench, function, None)
    assert (hardware.cards(), new.cards()) == (before, before)


def test_a_card_in_mode_is_offered_as_before_while_its_mode_is_not_read(bench_of: Bench) -> None:
    bench = bench_of(A100)
    bench.nvml.change({"gpu.0.mig": "1 1"})
    hardware = bench.start()
    before = hardware.cards()
    assert [len(partitions(card)) for card in before] == [25, 0]
    fail(bench, "nvmlDeviceGetMigMode")
    assert hardware.cards() == before


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"],
)
def test_events_are_received_once_the_card_can_be_registered(bench_of: Bench, function: str) -> None:
    bench = bench_of()
    bench.nvml.change({"gpu.0.field.230": None})
    hardware = bench.start()
    fail(bench, function)
    for _ in range(3):
        health = hardware.health()
        assert health["gpu-0"].state == "unknown", "nothing else would say a fault"
        assert health["gpu-1"].healthy, "its recovery action says that there is none"
        assert all(function in each.message and "code 999" in each.message for each in health.values())
    fail(bench, function, None)
    hardware.health()
    bench.nvml.change({"event.1": "0 8 79 4294967295 4294967295"})
    assert hardware.health()["gpu-0"].code == "Xid 79"


def lasting(hardware: Hardware) -> str:
    return hardware.health()["gpu-0"].state


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("nvmlDeviceGetFieldValues", {"gpu.0.field.230": 1}),
        ("nvmlDeviceGetRemappedRows", {"gpu.0.remapped": "0 9 0 1"}),
        ("nvmlDeviceGetRetiredPagesPendingStatus", {"gpu.0.remapped": None, "gpu.0.retired": "3 2 1"}),
        ("nvmlDeviceGetRetiredPages", {"gpu.0.remapped": None, "gpu.0.retired": "40 24 0"}),
    ],
)
def test_a_lasting_fault_stays_until_an_answer_takes_it_away(
    bench_of: Bench, function: str, fault: dict[str, str | int | None]
) -> None:
    bench = bench_of()
    bench.nvml.change(fault)
    hardware = bench.start()
    before = lasting(hardware)
    assert before in ("fatal", "degraded")
    fail(bench, function)
    assert lasting(hardware) == before
    bench.nvml.change({"gpu.0.field.230": 0, "gpu.0.remapped": "0 0 0 0", "gpu.0.retired": None})
    assert lasting(hardware) == before
    fail(bench, function, None)
    assert lasting(hardware) == "healthy"


def test_an_event_is_not_forgotten_because_no_recovery_was_asked_for_before(bench_of: Bench) -> None:
    bench = bench_of()
    hardware = bench.start()
    assert lasting(hardware) == "healthy"
    fail(bench, "nvmlDeviceGetFieldValues")
    bench.nvml.change({"event.1": "0 8 79 4294967295 4294967295"})
    assert [lasting(hardware) for _ in range(2)] == ["fatal", "fatal"]
    fail(bench, "nvmlDeviceGetFieldValues", None)
    assert lasting(hardware) == "healthy", "the driver says that there is nothing to recover from"


@pytest.mark.parametrize("known", [True, False])
def test_the_fault_of_an_instance_stays_while_instances_are_not_listed(bench_of: Bench, known: bool) -> None:
    bench = bench_of()
    hardware = bench.start()
    card = hardware.cards()[0]
    bench.nvml.change({"gpu.0.field.230": None, "gpu.0.mig": "1 1"})
    handle = hardware.ensure(MigInstance(card.uuid, "1g.10gb", 3))
    bench.nvml.change({"event.1": f"0 8 94 {handle['gpuInstance']} 4294967295"})
    if known:
        assert hardware.health()["gpu-0-mig-1g-10gb-3"].code == "Xid 94"
    fail(bench, "nvmlDeviceGetGpuInstances")
    health = hardware.health()
    if known:
        assert health["gpu-0-mig-1g-10gb-3"].code == "Xid 94"
    else:
        assert health["gpu-0"].state == "unknown"
        assert "nvmlDeviceGetGpuInstances" in health["gpu-0"].message
    fail(bench, "nvmlDeviceGetGpuInstances", None)
    assert hardware.health()["gpu-0-mig-1g-10gb-3"].code == "Xid 94"


def test_placements_are_asked_for_again_once_the_mode_is_on(bench_of: Bench) -> None:
    bench = bench_of()
    fail(bench, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", NOT_SUPPORTED)
    hardware = bench.start()
    hardware.cards()
    fail(bench, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", None)
    known = bench.nvml.calls("nvmlDeviceGetGpuInstancePossiblePlacements_v2")
    hardware.cards()
    assert bench.nvml.calls("nvmlDeviceGetGpuInstancePossiblePlacements_v2") == known
    bench.nvml.change({"gpu.0.mig": "1 1"})
    assert hardware.cards() == bench.start().cards()
    assert bench.nvml.calls("nvmlDeviceGetGpuInstancePossiblePlacements_v2") > known


def test_a_creation_that_the_card_refuses_for_its_arguments_is_refused(bench_of: Bench) -> None:
    bench = bench_of()
    hardware = bench.start()
    card = hardware.cards()[0]
    hardware.ensure(MigMode(card.uuid))
    fail(bench, "nvmlDeviceCreateGpuInstanceWithPlacement", INVALID_ARGUMENT)
    with pytest.raises(Unsupported, match="lgipp"):
        hardware.ensure(MigInstance(card.uuid, "1g.10gb", 6))


def test_no_file_of_the_driver_is_given_while_its_version_was_never_said(bench_of: Bench) -> None:
    bench = bench_of(L4)
    fail(bench, "nvmlSystemGetDriverVersion")
    hardware = bench.start()
    card = hardware.cards()[0]
    assert set(EVERY_OFFER) - set(hardware.observe(card).excluded) == set(EVERY_OFFER)
    with pytest.raises(TransientFault, match="nvmlSystemGetDriverVersion"):
        hardware.edits(Use("claim", card), {})
    fail(bench, "nvmlSystemGetDriverVersion", None)
    (again, _) = hardware.cards()
    assert hardware.edits(Use("claim", again), {}).mounts


def erring_files(bench: NvidiaBench) -> MemoryState:
    state = MemoryState()
    bench.root = ErringRoot(bench.machine.host, state)
    return state


def test_a_device_node_that_cannot_be_looked_at_is_as_it_was(bench_of: Bench) -> None:
    bench = bench_of()
    files = erring_files(bench)
    hardware = bench.start()
    cards, state = hardware.cards(), hardware.observe(hardware.cards()[0])
    files.change({"fault.device": "EIO"})
    assert hardware.cards() == cards
    assert hardware.unread_cards() == ()
    assert all(health.healthy for health in hardware.health().values())
    with pytest.raises(TransientFault, match="/dev/nvidiactl of the host cannot be looked at"):
        hardware.observe(cards[0])
    files.change({"fault.device": None})
    assert hardware.observe(cards[0]) == state


def test_a_card_whose_device_node_was_never_looked_at_is_left_out(bench_of: Bench) -> None:
    bench = bench_of()
    files = erring_files(bench)
    hardware = bench.start()
    files.change({"nvidia1.fault": "EACCES"})
    assert [card.name for card in hardware.cards()] == ["gpu-0"]
    assert ["/dev/nvidia1" in why for why in hardware.unread_cards()] == [True]
    files.change({"nvidia1": None})
    assert len(hardware.cards()) == 2
