"""Health and metrics over HTTP."""

import socket
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator

import pytest

from driver.observe import MAX_CONNECTIONS, Metrics, ObserveServer


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
    one, other = Metrics(), Metrics()
    one.counter("same_name", "One.").inc()
    other.counter("same_name", "The other.")
    values = [metrics.registry.get_sample_value("lode_same_name_total") for metrics in (one, other)]
    assert values == [1, 0]


def test_the_time_from_start_to_ready_is_a_metric() -> None:
    metrics = Metrics()
    seconds = metrics.mark_ready()
    assert 0 < seconds == metrics.registry.get_sample_value("lode_start_to_ready_seconds")


@pytest.mark.parametrize("address", [":0", "[::]:0", ":::0"])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_without_a_host_it_is_served_on_both_families(address: str, family: socket.AddressFamily, host: str) -> None:
    server = ObserveServer(address, Metrics(), {"/healthz": lambda: ""})
    with socket.socket(family) as client:
        client.connect((host, server.port))
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b"200 OK" in client.makefile("rb").read()
    server.close()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_an_address_of_one_family_is_served_there(address: str) -> None:
    server = ObserveServer(address, Metrics(), {"/healthz": lambda: ""})
    assert get(server.port, "/healthz") == (200, "ok\n")
    server.close()


def test_an_ipv6_address_is_written_in_brackets() -> None:
    try:
        server = ObserveServer("[::1]:0", Metrics(), {"/healthz": lambda: ""})
    except OSError:
        pytest.skip("this machine has no IPv6")
    with urllib.request.urlopen(f"http://[::1]:{server.port}/healthz", timeout=5) as answer:
        assert answer.status == 200
    server.close()


def test_silent_connections_are_closed_for_new_ones(server: ObserveServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * MAX_CONNECTIONS)]
    assert get(server.port, "/healthz") == (200, "ok\n")
    for connection in silent[:MAX_CONNECTIONS]:
        connection.settimeout(30)
        assert connection.recv(1) == b"", "the oldest were closed"
    for connection in silent:
        connection.close()


def test_metrics_have_no_series_with_the_time_of_their_first_use(server: ObserveServer) -> None:
    status, text = get(server.port, "/metrics")
    assert status == 200
    assert "lode_claims_prepared_total" in text
    assert "_created" not in text


def test_a_long_answer_is_compressed_for_those_who_accept_it() -> None:
    metrics = Metrics()
    many = b"# many series\n" * 10_000
    metrics.further["/metrics"] = lambda: many
    server = ObserveServer("127.0.0.1:0", metrics, {})
    try:
        url = f"http://127.0.0.1:{server.port}/metrics"
        plain = urllib.request.urlopen(url, timeout=5)
        asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip;q=1.0,identity"})
        packed = urllib.request.urlopen(asked, timeout=5)
        with plain, packed:
            assert packed.headers["Content-Encoding"] == "gzip"
            assert plain.headers["Content-Encoding"] is None
            body = packed.read()
            assert len(body) < 10_000
            assert zlib.decompress(body, wbits=31).endswith(many)
            assert plain.read().endswith(many)
    finally:
        server.close()


def test_series_with_names_of_others_have_a_path_of_their_own() -> None:
    metrics = Metrics()
    metrics.further["/metrics/others"] = lambda: b"their_name 1\n"
    server = ObserveServer("127.0.0.1:0", metrics, {})
    try:
        assert get(server.port, "/metrics/others") == (200, "their_name 1\n")
        assert "their_name" not in get(server.port, "/metrics")[1]
        assert get(server.port, "/metrics/nobody")[0] == 404
    finally:
        server.close()
