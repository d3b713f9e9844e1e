"""Health follows the recovery action that the driver asks for; without one, its events."""

from pathlib import Path

import pytest

from kubeletplugin.hardware.actions import MigInstance
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

XID, WHOLE = 8, 0xFFFFFFFF
GPU_IS_LOST = 15
RECOVERY = "gpu.0.field.230"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaBench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return NvidiaBench(tmp_path, H100, 2)


def xid(number: int, instance: int = WHOLE) -> dict[str, str]:
    return {"event.1": f"0 {XID} {number} {instance} {WHOLE}"}


def test_cards_without_faults_are_healthy(bench: NvidiaBench) -> None:
    assert {name: health.state for name, health in bench.start().health().items()} == {
        "gpu-0": "healthy",
        "gpu-1": "healthy",
    }


@pytest.mark.parametrize(
    ("action", "state", "recovery"),
    [
        (1, "fatal", "reset"),
        (2, "fatal", "reboot"),
        (3, "degraded", "drain"),
        (4, "degraded", "drain"),
        (5, "fatal", "drain"),
        (99, "fatal", "reset"),
    ],
)
def test_the_recovery_action_says_how_bad_it_is_until_it_is_none(
    bench: NvidiaBench, action: int, state: str, recovery: str
) -> None:
    hardware = bench.start()
    bench.nvml.change({RECOVERY: action, **xid(79)})
    for _ in range(2):
        health = hardware.health()["gpu-0"]
        assert (health.state, health.recovery, health.code) == (state, recovery, "Xid 79")
        assert hardware.health()["gpu-1"].healthy
    bench.nvml.change({RECOVERY: 0})
    assert hardware.health()["gpu-0"].healthy
    bench.nvml.change({RECOVERY: 1})
    assert hardware.health()["gpu-0"].code == "", "an event that has passed is told no more"


def test_an_event_means_nothing_where_the_driver_asks_for_no_recovery(bench: NvidiaBench) -> None:
    hardware = bench.start()
    bench.nvml.change(xid(79))
    assert hardware.health()["gpu-0"].healthy


@pytest.mark.parametrize(("number", "healthy"), [(48, False), (79, False), (13, True), (31, True), (43, True)])
def test_without_a_recovery_action_events_count_unless_applications_cause_them(
    bench: NvidiaBench, number: int, healthy: bool
) -> None:
    bench.nvml.change({RECOVERY: None, **xid(number)})
    hardware = bench.start()
    for _ in range(2):
        health = hardware.health()["gpu-0"]
        assert (health.healthy, health.code) == (healthy, "" if healthy else f"Xid {number}")


def test_a_fault_of_one_instance_leaves_the_others_healthy(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    bench.nvml.change({RECOVERY: None, "gpu.0.mig": "1 1"})
    handle = hardware.ensure(MigInstance(card.uuid, "1g.10gb", 3))
    hardware.ensure(MigInstance(card.uuid, "1g.10gb", 4))
    bench.nvml.change(xid(94, int(handle["gpuInstance"])))
    health = hardware.health()
    assert {name for name, each in health.items() if not each.healthy} == {"gpu-0-mig-1g-10gb-3"}
    assert health["gpu-0-mig-1g-10gb-3"].code == "Xid 94"


@pytest.mark.parametrize(
    ("rows", "state", "recovery"),
    [("1 0 0 0", "healthy", "none"), ("0 1 1 0", "degraded", "reset"), ("0 9 0 1", "fatal", "replace")],
)
def test_memory_that_cannot_be_repaired_is_fatal(bench: NvidiaBench, rows: str, state: str, recovery: str) -> None:
    bench.nvml.change({"gpu.0.remapped": rows})
    health = bench.start().health()["gpu-0"]
    assert (health.state, health.recovery) == (state, recovery)


@pytest.mark.parametrize(
    ("pages", "state", "recovery"),
    [("3 1 0", "healthy", "none"), ("3 2 1", "degraded", "reset"), ("40 24 0", "degraded", "replace")],
)
def test_pages_that_wait_for_their_retirement_and_a_full_table_of_retired_ones_are_told(
    bench: NvidiaBench, pages: str, state: str, recovery: str
) -> None:
    bench.nvml.change({"gpu.0.remapped": None, "gpu.0.retired": pages})
    health = bench.start().health()["gpu-0"]
    assert (health.state, health.recovery) == (state, recovery)


def test_without_a_recovery_action_an_event_counts_until_the_machine_starts_again(
    bench: NvidiaBench,
) -> None:
    bench.nvml.change({RECOVERY: None, **xid(79)})
    assert bench.start().health()["gpu-0"].code == "Xid 79"
    for _ in range(2):
        assert {name: each.code for name, each in bench.start().health().items()} == {"gpu-0": "Xid 79", "gpu-1": ""}
    bench.reboot()
    assert bench.start().health()["gpu-0"].healthy


def test_an_event_that_is_kept_ends_when_a_newer_driver_needs_no_recovery(bench: NvidiaBench) -> None:
    bench.nvml.change({RECOVERY: None, **xid(79)})
    assert not bench.start().health()["gpu-0"].healthy
    bench.nvml.change({RECOVERY: 0})
    assert bench.start().health()["gpu-0"].healthy
    bench.nvml.change({RECOVERY: None})
    assert bench.start().health()["gpu-0"].healthy


def test_a_file_of_events_that_cannot_be_read_is_one_without_events(bench: NvidiaBench) -> None:
    Path(bench.machine.run).mkdir(parents=True, exist_ok=True)
    Path(bench.machine.run, "xids.json").write_text('[["GPU-1", "x"]')
    assert bench.start().health()["gpu-0"].healthy


def test_stored_events_count_once_their_file_can_be_read(bench: NvidiaBench) -> None:
    bench.nvml.change({RECOVERY: None, **xid(79)})
    assert bench.start().health()["gpu-0"].code == "Xid 79"
    file = Path(bench.machine.run, "xids.json")
    aside = file.rename(file.with_name("aside"))
    file.mkdir()  # so that reading fails
    hardware = bench.start()
    for _ in range(2):
        assert hardware.health()["gpu-0"].state == "unknown"
        assert "xids.json" in hardware.health()["gpu-0"].message
    file.rmdir()
    aside.rename(file)
    assert hardware.health()["gpu-0"].code == "Xid 79"
    assert bench.start().health()["gpu-0"].code == "Xid 79"


def test_an_instance_that_is_made_anew_has_no_fault_of_the_one_before(bench: NvidiaBench) -> None:
    hardware = bench.start()
    action = MigInstance(hardware.cards()[0].uuid, "1g.10gb", 3)
    bench.nvml.change({RECOVERY: None, "gpu.0.mig": "1 1"})
    before = hardware.ensure(action)
    bench.nvml.change(xid(94, int(before["gpuInstance"])))
    assert not bench.start().health()["gpu-0-mig-1g-10gb-3"].healthy, "a restart forgets no fault"
    hardware.health()
    hardware.release(action, before)
    hardware.health()
    after = hardware.ensure(action)
    assert after["gpuInstance"] == before["gpuInstance"]
    assert all(each.healthy for each in hardware.health().values())


def test_a_card_that_is_lost_is_fatal_and_the_others_are_not(bench: NvidiaBench) -> None:
    hardware = bench.start()
    hardware.health()
    bench.nvml.change({"gpu.0.fault": GPU_IS_LOST})
    health = hardware.health()
    assert (health["gpu-0"].state, health["gpu-0"].recovery) == ("fatal", "reboot")
    assert health["gpu-1"].healthy


def test_a_driver_without_events_and_fields_reports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    missing = ["nvmlEventSetCreate", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows"]
    bench = NvidiaBench(tmp_path, H100, 1, without=missing)
    assert bench.start().health()["gpu-0"].healthy


def test_events_are_received_again_after_an_error(bench: NvidiaBench) -> None:
    hardware = bench.start()
    bench.nvml.change({RECOVERY: None, "fault.nvmlEventSetWait_v2": 999})
    health = hardware.health()["gpu-0"]
    assert (health.state, health.away) == ("unknown", True)
    assert "nvmlEventSetWait_v2" in health.message
    bench.nvml.change({"fault.nvmlEventSetWait_v2": None, **xid(79)})
    assert not hardware.health()["gpu-0"].healthy


def sets(bench: NvidiaBench) -> int:
    """How many event sets the driver keeps."""
    return sum(1 for key in bench.nvml.state() if key.startswith("set.") and key.count(".") == 1)


def test_a_lost_card_keeps_no_event_of_another_and_is_watched_again_when_it_answers(bench: NvidiaBench) -> None:
    bench.nvml.change({RECOVERY: None, "gpu.1.field.230": None})
    hardware = bench.start()
    assert all(each.healthy for each in hardware.health().values())
    bench.nvml.change({"gpu.0.fault": GPU_IS_LOST})
    for _ in range(3):
        assert {name: each.healthy for name, each in hardware.health().items()} == {"gpu-0": False, "gpu-1": True}
    bench.nvml.change({"event.1": f"1 {XID} 48 {WHOLE} {WHOLE}"})
    assert hardware.health()["gpu-1"].code == "Xid 48"
    assert sets(bench) == 1
    bench.nvml.change({"gpu.0.fault": None})
    assert hardware.health()["gpu-0"].healthy
    bench.nvml.change(xid(79))
    assert hardware.health()["gpu-0"].code == "Xid 79"
    assert sets(bench) == 2


def test_the_last_event_of_a_card_that_is_lost_is_told_and_so_are_those_read_before(bench: NvidiaBench) -> None:
    bench.nvml.change({RECOVERY: None, "gpu.1.field.230": None})
    hardware = bench.start()
    hardware.health()
    bench.nvml.change({"gpu.0.fault": GPU_IS_LOST, **xid(79), "event.2": f"1 {XID} 48 {WHOLE} {WHOLE}"})
    hardware.health()
    bench.nvml.change({"gpu.0.fault": None})
    assert {name: each.code for name, each in hardware.health().items()} == {"gpu-0": "Xid 79", "gpu-1": "Xid 48"}


def test_no_event_set_is_left_behind_by_a_card_that_cannot_be_registered(bench: NvidiaBench) -> None:
    hardware = bench.start()
    bench.nvml.change({"fault.nvmlDeviceRegisterEvents": 999})
    for _ in range(3):
        hardware.health()
    assert sets(bench) == 0


def test_not_all_cards_are_gone_where_the_driver_says_lost_of_any(bench: NvidiaBench) -> None:
    hardware = bench.start()
    hardware.health()
    bench.nvml.change({"uuid.any": 1, "gpu.0.fault": GPU_IS_LOST})
    health = hardware.health()
    assert {name: each.state for name, each in health.items()} == {"gpu-0": "fatal", "gpu-1": "healthy"}
    assert hardware.observe(hardware.cards()[1])


@pytest.mark.parametrize("function", ["nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_card_that_was_known_and_is_not_read_is_not_taken_for_lost(bench: NvidiaBench, function: str) -> None:
    hardware = bench.start()
    hardware.health()
    bench.nvml.change({f"gpu.0.fault.{function}": 999})
    health = hardware.health()
    assert {name: each.state for name, each in health.items()} == {"gpu-0": "unknown", "gpu-1": "healthy"}
    assert "code 999" in health["gpu-0"].message
    assert (health["gpu-0"].recovery, health["gpu-0"].away) == ("none", True)
    bench.clock.advance(60)
    assert hardware.health()["gpu-0"].state == "degraded"
    bench.nvml.change({f"gpu.0.fault.{function}": 0})
    assert hardware.health()["gpu-0"].state == "healthy"
