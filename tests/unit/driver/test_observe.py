"""Health and metrics over HTTP."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from driver.observe import Metrics, ObserveServer


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def server() -> Iterator[ObserveServer]:
    metrics = Metrics()
    metrics.counter("claims_prepared", "Claims prepared.", "outcome").labels("ok").inc()
    checks = {"/healthz": lambda: "", "/readyz": lambda: "not registered"}
    serving = ObserveServer("127.0.0.1:0", metrics, checks, {"/debug/usage": lambda: "{}"})
    yield serving
    serving.close()


def test_a_check_answers_200_or_503_with_what_is_wrong(server: ObserveServer) -> None:
    assert get(server.port, "/healthz") == (200, "ok\n")
    assert get(server.port, "/readyz") == (503, "not registered\n")
    assert get(server.port, "/elsewhere")[0] == 404


def test_pages_are_served_beside_the_checks(server: ObserveServer) -> None:
    assert get(server.port, "/debug/usage") == (200, "{}")


def test_metrics_of_the_program_and_of_its_process_are_served(server: ObserveServer) -> None:
    status, text = get(server.port, "/metrics")
    assert status == 200
    assert 'lode_claims_prepared_total{outcome="ok"} 1.0' in text
    assert "process_resident_memory_bytes" in text


def test_two_programs_in_one_process_do_not_share_metrics() -> None:
    Metrics().counter("same_name", "One.")
    Metrics().counter("same_name", "The other.")


def test_the_time_from_start_to_ready_is_a_metric() -> None:
    metrics = Metrics()
    seconds = metrics.mark_ready()
    assert 0 < seconds == metrics.registry.get_sample_value("lode_start_to_ready_seconds")
