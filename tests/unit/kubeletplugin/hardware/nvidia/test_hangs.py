"""A card whose calls hang delays no other."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from driver.clock import SystemClock
from driver.errors import TransientFault
from kubeletplugin.hardware import Health, Use
from kubeletplugin.hardware.choosing import CombinedHardware
from kubeletplugin.hardware.guarded import GuardedHardware
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

T = TypeVar("T")


def answered(question: Callable[[], T]) -> T:
    """The answer, once the earlier call has ended."""
    while True:
        try:
            return question()
        except TransientFault:
            continue


def test_a_card_that_hangs_is_given_up_and_the_others_serve_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, H100, 2)
    hardware = GuardedHardware(lambda: CombinedHardware.only(bench.start()), SystemClock(), answer_seconds=60)
    first, second = hardware.cards()
    bench.nvml.change({"gpu.0.fault": "hang"})
    impatient = GuardedHardware(lambda: CombinedHardware.only(hardware), SystemClock(), answer_seconds=0.05)
    try:
        with pytest.raises(TransientFault, match="did not answer"):
            impatient.observe(first)
        with pytest.raises(TransientFault, match="did not answer"):
            impatient.cards()
        assert hardware.observe(second).excluded == {}
        assert hardware.edits(Use("claim", second), {}).device_nodes
    finally:
        bench.nvml.change({"gpu.0.fault": None})
    assert answered(hardware.cards) == (first, second)
    assert answered(lambda: hardware.observe(first)).excluded == {}


def test_a_card_that_hangs_at_the_start_hides_no_other_and_one_that_hangs_later_is_unhealthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    hanging = {"card 0"}

    def ask(subject: str, question: Callable[[], T]) -> T:
        if subject in hanging:
            raise TransientFault(f"{subject} did not answer")
        return question()

    hardware = NvidiaBench(tmp_path, H100, 2).backend(ask)
    (second,) = hardware.cards()
    assert (second.name, hardware.health()) == ("gpu-1", {"gpu-1": Health()})
    hanging.clear()
    assert [card.name for card in hardware.cards()] == ["gpu-0", "gpu-1"]
    hanging |= {"card 1", f"card {second.uuid}"}
    assert [card.name for card in hardware.cards()] == ["gpu-0", "gpu-1"]
    health = hardware.health()
    assert (health["gpu-0"], health["gpu-1"].state) == (Health(), "fatal")
    assert health["gpu-1"].message == f"card {second.uuid} did not answer"
