"""What cards measure is shown as it was answered, is never 0 without an answer, and costs few questions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driver.errors import LodeError, TransientFault
from driver.observe import Metrics
from kubeletplugin.card_metrics import CARD_FAMILIES, CardMetrics
from kubeletplugin.hardware import Card, CardGone, Readings
from kubeletplugin.hardware.guarded import CardReadings
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.reused import LEAST_SECONDS
from simulation.kubernetes.plugin_client import PluginClient
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles
from tests.unit.docs.pages import page
from tests.unit.kubeletplugin.test_main import api_with_node, running, settings, wait_for

FIRST, SECOND = SimulatedHardware(load_profile("t4x2", MemoryFiles()), "n1").cards()
BUSY = Readings({"utilization": 0.25, "memoryUsed": 3 * 2**30, "temperature": 41, "power": 68.5})


class Node:
    """A node with two cards."""

    def __init__(self) -> None:
        self.clock, self.metrics, self.asked = VirtualClock(), Metrics(), 0
        self.answers: dict[str, Readings | LodeError] = {FIRST.name: BUSY, SECOND.name: BUSY}
        self.shown = CardMetrics(self._read, self.metrics, self.clock)

    def series(self) -> dict[str, dict[str, float]]:
        """The values of each card by the name of the series, after a while."""
        self.clock.sleep(LEAST_SECONDS)
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(self.shown.text().decode()):
            assert family.type == "gauge"
            for sample in family.samples:
                found.setdefault(sample.labels["card"], {})[sample.name] = sample.value
        return found

    def unread(self, card: Card) -> dict[str, float]:
        """How often each reading of a card was not had."""
        return {
            sample.labels["reading"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "lode_card_unread_readings_total" and sample.labels["uuid"] == card.uuid
        }

    def _read(self) -> CardReadings:
        self.asked += 1
        return [(card, self.answers[card.name]) for card in (FIRST, SECOND)]


SHOWN = {
    "lode_card_utilization_ratio": 0.25,
    "lode_card_memory_used_bytes": 3 * 2**30,
    "lode_card_memory_size_bytes": 15 * 2**30,
    "lode_card_temperature_celsius": 41,
    "lode_card_power_watts": 68.5,
}


def test_each_card_has_its_readings() -> None:
    node = Node()
    assert node.series() == {"gpu-0": SHOWN, "gpu-1": SHOWN}
    assert node.unread(FIRST) == {}


def test_cards_are_told_by_name_number_and_uuid() -> None:
    (family, *_) = text_string_to_metric_families(Node().shown.text().decode())
    assert family.samples[1].labels == {"card": "gpu-1", "index": "1", "uuid": SECOND.uuid}


def test_a_measure_that_there_is_not_has_no_series_and_is_no_fault() -> None:
    node = Node()
    node.answers[FIRST.name] = Readings({"utilization": 0.0})
    node.answers[SECOND.name] = Readings()
    assert node.series() == {"gpu-0": {"lode_card_utilization_ratio": 0, "lode_card_memory_size_bytes": 15 * 2**30}}
    assert node.unread(FIRST) == node.unread(SECOND) == {}


def test_a_measure_that_was_not_read_has_no_series_is_counted_and_comes_back() -> None:
    node = Node()
    node.answers[FIRST.name] = Readings({"utilization": 0.5}, frozenset({"power"}))
    for number in (1, 2):
        assert node.series()["gpu-0"].keys() == {"lode_card_utilization_ratio", "lode_card_memory_size_bytes"}
        assert node.unread(FIRST) == {"power": number}
    node.answers[FIRST.name] = BUSY
    assert node.series()["gpu-0"] == SHOWN
    assert node.unread(FIRST) == {"power": 2}


@pytest.mark.parametrize("error", [TransientFault("it hangs"), CardGone("it is not there")], ids=["silent", "lost"])
def test_a_card_that_does_not_answer_has_no_series_and_the_others_have_theirs(error: LodeError) -> None:
    node = Node()
    node.answers[FIRST.name] = error
    assert node.series() == {"gpu-1": SHOWN}
    assert node.unread(FIRST) == dict.fromkeys(["utilization", "memoryUsed", "temperature", "power"], 1)


def test_cards_are_asked_once_in_a_while_however_often_somebody_asks_for_metrics() -> None:
    node = Node()
    for _ in range(3):
        node.shown.text()
    assert node.asked == 1
    node.clock.sleep(LEAST_SECONDS)
    node.shown.text()
    assert node.asked == 2


def test_a_large_number_is_written_whole() -> None:
    node = Node()
    node.answers[FIRST.name] = Readings({"memoryUsed": 137438953471})
    assert node.series()["gpu-0"]["lode_card_memory_used_bytes"] == 137438953471


def test_every_series_is_described_with_the_names_that_others_have() -> None:
    text = page("docs/metrics.md").partition("### Utilization, memory, temperature and power")[2]
    for name in (*CARD_FAMILIES, "hw.gpu.utilization", "hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.temperature"):
        assert f"`{name}`" in text
    for name in ("hw.power", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP"):
        assert f"`{name}`" in text
    assert "`DCGM_FI_DEV_POWER_USAGE`" in text


@pytest.mark.parametrize(
    ("chosen", "shown"), [({}, False), ({"cardMetrics": True}, True)], ids=["by default", "cardMetrics"]
)
def test_the_program_serves_them_where_that_is_set(tmp_path: Path, chosen: Mapping[str, Any], shown: bool) -> None:
    api, client = api_with_node(), PluginClient(str(tmp_path), "lode.dev")
    with running(api, settings(tmp_path, profile="h100x8", **chosen)) as plugin:
        wait_for(lambda: bool(client.sync()))
        wait_for(lambda: plugin.ready() == "")
        assert (b"lode_card_power_watts" in (plugin.metrics.text("/metrics") or b"")) == shown


def test_claims_and_cards_are_served_together(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.add("/metrics", lambda: b"one 1\n")
    metrics.add("/metrics", lambda: b"two 2\n")
    assert (metrics.text("/metrics") or b"").endswith(b"one 1\ntwo 2\n")
