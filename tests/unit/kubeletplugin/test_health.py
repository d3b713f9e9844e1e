"""The health feed reports the devices of the cards that are there now."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from driver.errors import TransientFault
from driver.observe import logger
from driver.settings import Settings
from kubeletplugin.hardware import Card, Health
from kubeletplugin.hardware.port import HealthState
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.health import HealthFeed, HealthService
from kubeletplugin.proto import dra_health_v1_pb2, dra_health_v1alpha1_pb2
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles


class Growing(SimulatedHardware):
    """Hardware of which only the first ``present`` cards are there."""

    present = 1

    def cards(self) -> tuple[Card, ...]:
        return super().cards()[: self.present]


def test_a_card_that_appears_is_reported() -> None:
    hardware, clock, ended = Growing(load_profile("t4x2", MemoryFiles()), "n1"), VirtualClock(), threading.Event()
    reports = HealthFeed(hardware, clock, Settings(), "n1", logger("test")).reports(ended)
    assert {item.device.split("-")[1] for item in next(reports)} == {"0"}
    hardware.present = 2
    assert {item.device.split("-")[1] for item in next(reports)} == {"0", "1"}
    ended.set()
    assert list(reports) == []


class Silent(SimulatedHardware):
    """Hardware that does not answer before the fourth question."""

    asked = 0

    def cards(self) -> tuple[Card, ...]:
        self.asked += 1
        if self.asked < 4:
            raise TransientFault("the library hangs")
        return super().cards()


class Quick(threading.Event):
    """An event whose waits end at once."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def test_hardware_that_does_not_answer_is_said_once() -> None:
    hardware, ended = Silent(load_profile("t4x2", MemoryFiles()), "n1"), Quick()
    with capture_logs() as lines:
        assert next(HealthFeed(hardware, VirtualClock(), Settings(), "n1", logger("test")).reports(ended))
    assert [line["reason"] for line in lines] == ["the library hangs"]


@pytest.mark.parametrize("messages", [dra_health_v1_pb2, dra_health_v1alpha1_pb2])
@pytest.mark.parametrize(
    ("state", "sent"),
    [("healthy", "HEALTHY"), ("unknown", "UNKNOWN"), ("degraded", "UNHEALTHY"), ("fatal", "UNHEALTHY")],
)
def test_the_kubelet_is_told_what_is_known(messages: Any, state: HealthState, sent: str) -> None:
    class Cards(SimulatedHardware):
        def health(self) -> Mapping[str, Health]:
            return {name: Health(state) for name in super().health()}

    hardware = Cards(load_profile("t4x2", MemoryFiles()), "n1")
    feed = HealthFeed(hardware, VirtualClock(), Settings(), "n1", logger("test"))
    context: Any = SimpleNamespace(add_callback=lambda _: True)
    answer: Any = next(HealthService(messages, feed).NodeWatchResources(None, context))
    assert {messages.HealthStatus.Name(device.health) for device in answer.devices} == {sent}
