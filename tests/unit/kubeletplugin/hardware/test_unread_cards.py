"""A card that a vendor's library does not tell is not one that the node does not have."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import Card, CardGone, Hardware
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware
from kubeletplugin.hardware.simulated import Profile, SimulatedHardware
from tests.fakes.dcmi.models import ASCEND_310P3
from tests.fakes.nvml.models import T4
from tests.fakes.state import FakeState
from tests.unit.kubeletplugin.hardware.ascend.machine import Machine
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench

UNKNOWN, TIMEOUT, NOT_READY = 999, -8006, -8012
Node = tuple[FakeState, Callable[[], Hardware], Mapping[str, str | int | None]]
"""The state of a library, a new backend, and what lets its first card be unread."""


def _nvidia(folder: Path) -> Node:
    bench = NvidiaBench(folder, T4, 2)
    return bench.nvml, bench.start, {"gpu.0.fault.nvmlDeviceGetUUID": UNKNOWN}


def _ascend(folder: Path) -> Node:
    machine = Machine(folder)
    machine.add(ASCEND_310P3)
    machine.add(ASCEND_310P3)
    return machine.dcmi, machine.start, {"chip.0.fault.dcmi_get_device_die_v2": TIMEOUT}


def _starting(folder: Path) -> Node:
    fake, start, unread = _ascend(folder)
    return fake, start, dict.fromkeys(unread, NOT_READY)


@pytest.fixture(params=[_nvidia, _ascend, _starting])
def node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    monkeypatch.setenv("FAKE_DCMI", str(tmp_path / "dcmi"))
    make: Callable[[Path], Node] = request.param
    return make(tmp_path)


def test_a_card_that_is_not_read_at_the_start_is_left_out_and_the_call_is_named(node: Node) -> None:
    fake, start, unread = node
    first, second = start().cards()
    fake.change(unread)
    hardware = start()
    assert hardware.cards() == (second,)
    (why,) = hardware.unread_cards()
    (function,) = (key.rpartition(".")[2] for key in unread)
    assert function in why
    with pytest.raises(TransientFault):
        hardware.observe(first)
    fake.change(dict.fromkeys(unread))
    assert hardware.cards() == (first, second)
    assert hardware.unread_cards() == ()
    hardware.observe(first)


def test_nothing_is_left_out_of_a_node_that_answers_and_no_card_is_taken_for_another(node: Node) -> None:
    _, start, _ = node
    hardware = start()
    assert len(hardware.cards()) == 2
    assert hardware.unread_cards() == ()


def test_a_board_that_starts_is_not_one_that_the_node_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DCMI", str(tmp_path / "dcmi"))
    fake, start, _ = _ascend(tmp_path)
    first, _ = start().cards()
    fake.change({"fault.dcmi_get_device_id_in_card.3": NOT_READY})
    hardware = start()
    assert [card.name for card in hardware.cards()] == ["npu-1"]
    assert ["dcmi_get_device_id_in_card" in why for why in hardware.unread_cards()] == [True]
    fake.change({"fault.dcmi_get_device_id_in_card": NOT_READY})
    with pytest.raises(TransientFault):
        hardware.observe(first)


class Silent(SimulatedHardware):
    """A backend that could not read its only card."""

    why: tuple[str, ...] = ("card 0: no answer",)

    def cards(self) -> tuple[Card, ...]:
        return ()

    def unread_cards(self) -> tuple[str, ...]:
        return self.why


def test_a_card_of_no_backend_is_gone_only_if_all_backends_have_read_theirs() -> None:
    backends = {name: Silent(Profile(()), name) for name in ("one", "other")}
    both = CombinedHardware(
        [BackendChoice(name, lambda: True, partial(backends.__getitem__, name)) for name in backends]
    )
    with pytest.raises(TransientFault, match="no answer"):
        both.of_card("GPU-1")
    for backend in backends.values():
        backend.why = ()
    with pytest.raises(CardGone):
        both.of_card("GPU-1")
