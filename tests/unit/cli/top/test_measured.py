"""What is read from Prometheus about cards: by uuid, from both exporters, and nothing where nobody has measured."""

import math

import pytest

from cli.top.measured import CardUsage, Measured, Sample, card_hours, measure
from tests.unit.cli.top.points import FakeDatabase

NOW = 1_700_000_100
HOUR = 3600


def every_minute(hours: float, value: float, until: int = NOW) -> list[tuple[int, float]]:
    """Points of so many hours before that time."""
    return [(at, value) for at in range(until - int(hours * HOUR), until + 1, 60)]


def database() -> FakeDatabase:
    found = FakeDatabase(NOW)
    found.add("DCGM_FI_DEV_GPU_UTIL", every_minute(4, 50), UUID="GPU-busy", gpu="0", Hostname="a")
    found.add(
        "DCGM_FI_DEV_GPU_UTIL",
        [*every_minute(1, 80, NOW - 2 * HOUR), *every_minute(2, 0)[1:]],
        UUID="GPU-idle",
    )
    found.add("DCGM_FI_DEV_GPU_UTIL", every_minute(0.5, 0), UUID="GPU-new")
    found.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", every_minute(4, 0.25), UUID="GPU-mig", GPU_I_ID="1")
    found.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", every_minute(4, 0.75), UUID="GPU-mig", GPU_I_ID="2")
    found.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", every_minute(4, 0.9), UUID="GPU-busy")
    found.add("npu_chip_info_utilization", every_minute(4, 20), vdie_id="ab12-CD34", id="0")
    found.add("lode_card_utilization_ratio", every_minute(4, 0.3), uuid="GPU-ours", card="gpu-0", index="0")
    found.add("lode_card_utilization_ratio", every_minute(4, 0.3), uuid="GPU-busy", card="gpu-1", index="1")
    return found


def test_utilisation_is_the_mean_of_the_window_by_uuid() -> None:
    found = measure(database(), HOUR, NOW)
    assert found.usage("GPU-busy").utilization == pytest.approx(0.5)
    assert found.usage("GPU-idle").utilization == 0
    assert measure(database(), 4 * HOUR, NOW).usage("GPU-idle").utilization == pytest.approx(0.8 / 3, abs=0.01)


def test_of_a_card_in_mig_mode_the_busiest_instance_counts() -> None:
    assert measure(database(), HOUR, NOW).usage("GPU-mig").utilization == pytest.approx(0.75)


def test_what_our_plugin_measures_counts_where_there_is_no_exporter() -> None:
    found = measure(database(), HOUR, NOW)
    assert found.usage("GPU-ours").utilization == pytest.approx(0.3)
    assert found.usage("GPU-busy").utilization == pytest.approx(0.5)


def test_npus_are_known_by_their_die_in_any_case() -> None:
    assert measure(database(), HOUR, NOW).usage("AB12-CD34").utilization == pytest.approx(0.2)


def test_a_card_is_idle_since_it_was_busy_last() -> None:
    usage = measure(database(), 4 * HOUR, NOW).usage("GPU-idle")
    assert usage.exact
    assert usage.idle_seconds == pytest.approx(2 * HOUR, abs=360)
    assert measure(database(), HOUR, NOW).usage("GPU-busy").idle_seconds == pytest.approx(0, abs=60)


def test_a_card_that_was_never_busy_is_idle_at_least_as_long_as_there_is_data() -> None:
    usage = measure(database(), 4 * HOUR, NOW).usage("GPU-new")
    assert not usage.exact
    assert usage.idle_seconds == pytest.approx(HOUR / 2, abs=60)


@pytest.mark.parametrize("uuid", ["", "GPU-nobody"])
def test_nothing_is_known_of_a_card_that_nobody_measures(uuid: str) -> None:
    assert measure(database(), HOUR, NOW).usage(uuid) == CardUsage(None, None, False)


def test_a_value_that_is_no_number_is_no_measurement() -> None:
    class Odd:
        def query(self, expression: str) -> list[Sample]:
            del expression
            return [Sample({"UUID": "GPU-x"}, math.nan), Sample({}, 1.0), Sample({"UUID": ""}, 1.0)]

    assert measure(Odd(), HOUR, NOW) == Measured({})


def test_hours_of_cards_are_those_of_the_window() -> None:
    found = database()
    for kind, rate in (("whole", 2.0), ("share", 0.5)):
        seconds = [(at, rate * (at - NOW + 4 * HOUR)) for at, _ in every_minute(4, 0)]
        found.add("lode_namespace_card_seconds_total", seconds, namespace="team-a", kind=kind, type="A100")
    assert card_hours(found, 2 * HOUR)["team-a", "A100"] == pytest.approx(5, abs=0.1)
    assert card_hours(FakeDatabase(NOW), HOUR) == {}
