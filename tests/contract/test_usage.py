"""What `lode top --prometheus` asks a real Prometheus for is what the fake of the port answers from the same points."""

import math
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.top.measured import card_hours, measure
from cli.top.prometheus import PrometheusServer
from testclusters.debian import prometheus
from tests.contract.conftest import needed
from tests.contract.running_prometheus import running_prometheus
from tests.unit.cli.top.points import FakeDatabase

HOUR = 3600


@pytest.fixture(scope="module")
def fake() -> FakeDatabase:
    """Four hours of points, a minute apart, of cards of both vendors and of a namespace."""
    now = int(time.time()) // 60 * 60
    times = range(now - 4 * HOUR, now + 1, 60)
    found = FakeDatabase(now)
    found.add("DCGM_FI_DEV_GPU_UTIL", [(at, 50) for at in times], UUID="GPU-busy", gpu="0", Hostname="a")
    found.add("DCGM_FI_DEV_GPU_UTIL", [(at, 80 if at < now - 2 * HOUR else 0) for at in times], UUID="GPU-idle")
    found.add("DCGM_FI_DEV_GPU_UTIL", [(at, 0) for at in times if at >= now - HOUR], UUID="GPU-new")
    for instance, value in (("1", 0.25), ("2", 0.75)):
        found.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [(at, value) for at in times], UUID="GPU-mig", GPU_I_ID=instance)
    found.add("npu_chip_info_utilization", [(at, 20) for at in times], vdie_id="AB12-CD34", id="0")
    for kind, rate in (("gpu", 2.0), ("gpu-share", 0.5)):
        seconds = [(at, rate * (at - times[0])) for at in times]
        found.add("lode_namespace_card_seconds_total", seconds, namespace="team-a", kind=kind, type="A100")
    return found


@pytest.fixture(scope="module")
def real(fake: FakeDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A Prometheus that has the points of the fake."""
    folder = tmp_path_factory.mktemp("prometheus")
    with needed():
        programs = prometheus()
    points = folder / "points.txt"
    points.write_text(open_metrics(fake))
    backfill: list[str | Path] = [programs / "promtool", "tsdb", "create-blocks-from", "openmetrics", points]
    subprocess.run([*backfill, folder / "data"], check=True, capture_output=True)
    with running_prometheus(folder, {"global": {}}) as url:
        yield PrometheusServer(url)


def open_metrics(fake: FakeDatabase) -> str:
    """The series of the fake in the format that promtool reads."""
    lines = []
    for (metric, labels), points in sorted(fake.series.items()):
        named = ",".join(f'{name}="{value}"' for name, value in labels)
        lines += [f"{metric}{{{named}}} {value} {at}" for at, value in points]
    return "\n".join([*lines, "# EOF", ""])


@pytest.mark.parametrize("seconds", [HOUR, 3 * HOUR])
def test_both_know_the_same_of_each_card(fake: FakeDatabase, real: PrometheusServer, seconds: int) -> None:
    told, expected = measure(real, seconds, time.time()), measure(fake, seconds, fake.now)
    assert set(told.cards) == set(expected.cards) == {"gpu-busy", "gpu-idle", "gpu-new", "gpu-mig", "ab12-cd34"}
    for uuid, usage in expected.cards.items():
        found = told.cards[uuid]
        assert found.exact == usage.exact, uuid
        assert math.isclose(found.utilization or 0, usage.utilization or 0, abs_tol=0.03), uuid
        assert abs((found.idle_seconds or 0) - (usage.idle_seconds or 0)) < 420, uuid


def test_both_know_the_same_hours_of_namespaces(fake: FakeDatabase, real: PrometheusServer) -> None:
    found, expected = card_hours(real, 2 * HOUR), card_hours(fake, 2 * HOUR)
    assert set(found) == set(expected) == {("team-a", "A100")}
    assert found["team-a", "A100"] == pytest.approx(expected["team-a", "A100"], abs=0.2)


def test_nothing_is_known_where_nobody_has_measured(real: PrometheusServer) -> None:
    usage = measure(real, HOUR, time.time()).usage("GPU-nobody")
    assert (usage.utilization, usage.idle_seconds) == (None, None)
