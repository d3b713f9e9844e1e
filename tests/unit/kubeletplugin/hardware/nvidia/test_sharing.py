"""Strategies of sharing: what exists on the node, what a container gets, and that limits add up to at most a card."""

import re
import struct
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.errors import TransientFault
from driver.parameters import GpuConfig
from kubeletplugin.hardware import Card, Share, Unsupported, Use
from kubeletplugin.hardware.actions import MpsDaemon, TimeSlice
from kubeletplugin.hardware.edits import Edits, Mount
from kubeletplugin.hardware.port import Hardware
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

Strategy = Literal["mps", "hamiCore"]
EXCLUSIVE, DEFAULT = "3", "0"
NOT_SUPPORTED = 3


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaBench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return NvidiaBench(tmp_path, H100, 2)


def share_of(card: Card, claim: str, memory: int, cores: int, sharing: Strategy) -> Use:
    return Use(
        claim,
        card,
        share=Share(claim, memory, cores),
        config=GpuConfig(sharing=sharing),
        cards_of_request=(card.uuid,),
    )


def made(hardware: Hardware, use: Use) -> Edits:
    handles = {action.key: hardware.ensure(action) for action in hardware.actions(use, ())}
    return hardware.edits(use, handles)


def limits(edits: Edits, sharing: Strategy) -> tuple[int, int]:
    """Memory in MiB and per cent of the cores that the environment limits a container to."""
    env = dict(edits.env)
    if sharing == "mps":
        memory = env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
        return int(re.fullmatch(r"0=(\d+)M", memory)[1]), int(env.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 0))  # type: ignore[index]
    return int(env["CUDA_DEVICE_MEMORY_LIMIT_0"].removesuffix("m")), int(env.get("CUDA_DEVICE_SM_LIMIT_0", 0))


@pytest.mark.parametrize("sharing", ["mps", "hamiCore"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(cut=st.integers(1, H100.memory_mib - 1), cores=st.integers(0, 100))
def test_limits_of_two_claims_add_up_to_no_more_than_the_card(
    bench: NvidiaBench, sharing: Strategy, cut: int, cores: int
) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    first = limits(made(hardware, share_of(card, "one", cut, cores, sharing)), sharing)
    second = limits(made(hardware, share_of(card, "two", card.memory_mib - cut, 100 - cores, sharing)), sharing)
    assert first[0] + second[0] == card.memory_mib
    assert first[1] + second[1] <= 100


def test_one_daemon_serves_a_card_as_a_service_of_the_host(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    first = made(hardware, share_of(card, "one", 1024, 30, "mps"))
    second = made(bench.start(), share_of(card, "two", 2048, 0, "mps"))
    ((unit, command),) = bench.machine.commands.services().items()
    assert unit == f"lode.dev-mps-{card.uuid}.service"
    folder = f"{bench.machine.run}/mps/{card.uuid}"
    assert f"--setenv=CUDA_VISIBLE_DEVICES={card.uuid}" in command
    assert f"--property=BindPaths={folder}/shm:/dev/shm" in command
    assert command.endswith("-- /usr/bin/nvidia-cuda-mps-control -f")
    assert bench.nvml.state()["gpu.0.computemode"] == EXCLUSIVE
    inside = f"/tmp/nvidia-mps-{card.uuid}"
    for edits in (first, second):
        assert dict(edits.env)["CUDA_MPS_PIPE_DIRECTORY"] == inside
        mounts = {mount.container_path: mount.host_path for mount in edits.mounts}
        assert (mounts[inside], mounts["/dev/shm"]) == (f"{folder}/pipe", f"{folder}/shm")
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in dict(second.env)


def test_the_daemon_outlives_the_backend_and_ends_with_its_release(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    hardware.ensure(MpsDaemon(card.uuid))
    again = bench.start()
    assert [each.action for each in again.observe(card).found] == [MpsDaemon(card.uuid)]
    again.release(MpsDaemon(card.uuid), {})
    assert bench.machine.commands.services() == {}
    assert bench.nvml.state()["gpu.0.computemode"] == DEFAULT
    assert again.observe(card).found == ()


def test_a_daemon_that_has_ended_is_started_again(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    hardware.ensure(MpsDaemon(card.uuid))
    bench.machine.commands.forget()
    assert [each.complete for each in hardware.observe(card).found] == [False]
    hardware.ensure(MpsDaemon(card.uuid))
    assert len(bench.machine.commands.services()) == 1


@pytest.mark.parametrize("program", ["systemd-run", "nvidia-cuda-mps-control", "systemctl"])
def test_a_daemon_that_cannot_be_started_is_found_and_released(bench: NvidiaBench, program: str) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    bench.machine.commands.fail(program)
    with pytest.raises(TransientFault, match=program):
        hardware.ensure(MpsDaemon(card.uuid))
    bench.machine.commands.fail(program, fails=False)
    assert [each.action for each in hardware.observe(card).found] == [MpsDaemon(card.uuid)]
    hardware.release(MpsDaemon(card.uuid), None)
    assert bench.nvml.state()["gpu.0.computemode"] == DEFAULT


def test_time_slices_are_set_by_card_and_set_back(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[1]
    action = TimeSlice(card.uuid, "medium")
    hardware.ensure(action)
    assert [each.action for each in bench.start().observe(card).found] == [action]
    hardware.release(action, {})
    hardware.release(action, {})
    program = f"{bench.machine.host}/usr/bin/nvidia-smi compute-policy -i {card.uuid}"
    assert bench.machine.commands.log() == [f"{program} --set-timeslice=2", f"{program} --set-timeslice=0"]


def test_hami_core_is_loaded_for_shares_only(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    with pytest.raises(Unsupported, match="shares only"):
        hardware.actions(Use("whole", card, config=GpuConfig(sharing="hamiCore")), ())
    whole = hardware.edits(Use("whole", card), {})
    without = hardware.edits(Use("share", card, share=Share("a", 1024, 10)), {})
    for edits in (whole, without):
        assert "/etc/ld.so.preload" not in {mount.container_path for mount in edits.mounts}
    edits = made(hardware, share_of(card, "one", 1024, 10, "hamiCore"))
    assert {"/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so"} <= {mount.container_path for mount in edits.mounts}


def test_hami_core_numbers_cards_as_the_container_does_and_shares_one_region(bench: NvidiaBench) -> None:
    hardware = bench.start()
    cards = hardware.cards()
    together = tuple(card.uuid for card in reversed(cards))
    shares = [
        Use(
            "claim",
            card,
            share=Share(card.name, 100 + i, 10 + i),
            config=GpuConfig(sharing="hamiCore"),
            cards_of_request=together,
        )
        for i, card in enumerate(cards)
    ]
    edits = [made(hardware, use) for use in shares]
    first, second = (dict(each.env) for each in edits)
    assert (first["CUDA_DEVICE_MEMORY_LIMIT_1"], first["CUDA_DEVICE_SM_LIMIT_1"]) == ("100m", "10")
    assert (second["CUDA_DEVICE_MEMORY_LIMIT_0"], second["CUDA_DEVICE_SM_LIMIT_0"]) == ("101m", "11")
    assert regions(edits[0]) == regions(edits[1])
    (use,) = regions(edits[0])
    assert Path(use.host_path).read_bytes()[1600:1616] == struct.pack("<2Q", 101 << 20, 100 << 20)
    assert {name for name in first if name in second and first[name] != second[name]} == set()


def regions(edits: Edits) -> list[Mount]:
    return [mount for mount in edits.mounts if mount.container_path == "/tmp/cudevshr.cache"]


def test_hami_core_finds_its_limits_without_the_environment(bench: NvidiaBench) -> None:
    hardware = bench.start()
    edits = made(hardware, share_of(hardware.cards()[0], "one", 1024, 10, "hamiCore"))
    (region,) = regions(edits)
    assert "CUDA_DEVICE_MEMORY_SHARED_CACHE" not in dict(edits.env)
    found = Path(region.host_path).read_bytes()
    assert struct.unpack_from("<16Q", found, 1600) == (1024 << 20,) * 16
    assert struct.unpack_from("<Q", found, 1728) == (10,)


def test_a_file_that_a_killed_program_has_begun_goes_with_the_claim(bench: NvidiaBench) -> None:
    hardware = bench.start()
    use = share_of(hardware.cards()[0], "one", 1024, 10, "hamiCore")
    (region,) = regions(made(hardware, use))
    folder = Path(region.host_path).parent
    (folder.parent / f".{folder.name}").write_bytes(b"begun")
    for action in hardware.actions(use, ()):
        hardware.release(action, {})
    assert list(folder.parent.iterdir()) == []


def test_an_older_hami_core_makes_its_file_itself(bench: NvidiaBench) -> None:
    bench.machine.file("usr/local/vgpu/libvgpu.so", "of 2023")
    hardware = bench.start()
    edits = made(hardware, share_of(hardware.cards()[0], "one", 1024, 10, "hamiCore"))
    assert not regions(edits)
    assert dict(edits.env)["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == "/usr/local/vgpu/claims/one/usage.cache"


def test_a_node_without_hami_core_says_so_before_anything_is_done(bench: NvidiaBench) -> None:
    (bench.machine.host / "usr/local/vgpu/libvgpu.so").unlink()
    hardware = bench.start()
    with pytest.raises(Unsupported, match="install HAMi-core"):
        hardware.actions(share_of(hardware.cards()[0], "one", 1024, 10, "hamiCore"), ())


def test_mps_of_two_cards_in_one_container_contradict_each_other(bench: NvidiaBench) -> None:
    hardware = bench.start()
    pipes = {
        dict(made(hardware, share_of(card, "one", 1024, 10, "mps")).env)["CUDA_MPS_PIPE_DIRECTORY"]
        for card in hardware.cards()
    }
    assert len(pipes) == 2


def test_a_card_without_compute_modes_is_refused_for_mps_and_keeps_nothing(bench: NvidiaBench) -> None:
    hardware = bench.start()
    card = hardware.cards()[0]
    bench.nvml.change({"gpu.0.fault.nvmlDeviceSetComputeMode": NOT_SUPPORTED})
    with pytest.raises(Unsupported, match="compute mode"):
        hardware.ensure(MpsDaemon(card.uuid))
    assert hardware.observe(card).found == ()
    assert bench.machine.commands.services() == {}
