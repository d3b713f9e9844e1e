"""``lode top`` with ``--prometheus``, ``--since`` and ``--idle``: joined on the uuid, and never 0 without data."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.kube.api import RESOURCE_SLICES
from tests.unit.cli.top.points import FakeDatabase
from tests.unit.cli.user import User, hold

HOUR = 3600
URL = "http://localhost:9090"


@pytest.fixture
def database(cluster: User, monkeypatch: pytest.MonkeyPatch) -> FakeDatabase:
    """A Prometheus that knows of card 0 that it has been idle for three hours, and nothing of card 1."""
    now = int(time.time())
    found = FakeDatabase(now)
    (uuid, _) = uuids(cluster)
    points = [(at, 40.0 if at < now - 3 * HOUR else 0.0) for at in range(now - 8 * HOUR, now + 1, 60)]
    found.add("DCGM_FI_DEV_GPU_UTIL", points, UUID=uuid)

    def server(url: str, token: str) -> FakeDatabase:
        found.asked.append(f"{url} {token}")
        return found

    monkeypatch.setattr("cli.top.run.PrometheusServer", server)
    return found


def uuids(cluster: User) -> list[str]:
    (part,) = cluster.api.list(RESOURCE_SLICES).items
    return [device["attributes"]["uuid"]["string"] for device in part["spec"]["devices"]]


def items(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert lode(["top", *argv, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)["items"]


def test_cards_have_their_utilisation_by_uuid_and_nothing_is_said_of_others(
    database: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lode(["top", "cards", "--prometheus", URL, "--since", "6h", "--no-headers"]) == 0
    first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch("2h5[0-9]m|3h(?:[1-5]m)?", first[-1])
    assert first[-2] in ("20%", "21%")
    assert second[-2:] == ["-", "-"]
    known, unknown = items(capsys, "cards", "--prometheus", URL)
    assert known["utilization"] == 0
    assert known["idle"].startswith(">")
    assert known["idleSeconds"] == pytest.approx(HOUR, abs=300)
    assert not {"utilization", "idle", "idleSeconds"} & unknown.keys()


def test_nodes_have_the_mean_of_the_cards_that_are_measured(
    database: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    (node,) = items(capsys, "nodes", "--prometheus", URL, "--since", "6h")
    assert node["utilization"] == pytest.approx(0.2, abs=0.01)
    (bare,) = items(capsys, "nodes")
    assert "utilization" not in bare


def test_idle_cards_are_those_that_claims_hold_and_that_did_nothing_for_so_long(
    cluster: User, database: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("cards", "--prometheus", URL, "--idle", "2h")
    assert lode(["top", *asked]) == 0
    assert "No card that claims hold has done nothing for so long." in capsys.readouterr().err
    hold(cluster, "c", "g/gpu-0")
    hold(cluster, "d", "g/gpu-1")
    assert [item["card"] for item in items(capsys, *asked)] == ["g/gpu-0"]
    assert lode(["top", "cards", "--prometheus", URL, "--idle", "4h"]) == 0
    assert capsys.readouterr().out == ""


def test_namespaces_have_the_hours_of_cards_of_the_window(
    database: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = [(at, float(at)) for at in range(database.now - 8 * HOUR, database.now + 1, 60)]
    database.add("lode_namespace_card_seconds_total", seconds, namespace="past", kind="gpu", type="T4")
    (past,) = items(capsys, "namespaces", "-A", "--prometheus", URL, "--since", "4h")
    assert past["namespace"] == "past"
    assert past["cardHours"] == pytest.approx(4, abs=0.05)
    assert lode(["top", "namespaces", "-n", "default", "--prometheus", URL]) == 0
    assert capsys.readouterr().out == ""


def test_costs_of_a_window_are_the_hours_of_cards_times_their_price(
    cluster: User, database: FakeDatabase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "prices").write_text("perHour: {T4: 0.5, A100: 2}")
    for kind, rate in (("T4", 1.0), ("A100", 0.25), ("H100", 1.0)):
        seconds = [(at, rate * at) for at in range(database.now - 8 * HOUR, database.now + 1, 60)]
        database.add("lode_namespace_card_seconds_total", seconds, namespace="past", kind="gpu", type=kind)
    asked = ("costs", "-A", "--prices", str(tmp_path / "prices"))
    since = ("--prometheus", URL, "--since", "4h")
    found = {one["namespace"]: one for one in items(capsys, *asked, *since)}
    assert found["past"]["cardHours"] == pytest.approx(5, abs=0.1)
    assert found["past"]["cost"] == pytest.approx(4 * 0.5 + 1 * 2, abs=0.1)
    assert found["past"]["costPerHour"] == 0
    assert not {"cardHours", "cost"} & found["__idle__"].keys()
    assert lode(["top", *asked, *since]) == 0
    table = capsys.readouterr()
    assert table.out.splitlines()[0].split()[-2:] == ["CARD-HOURS", "COST"]
    assert "cards of the type H100 have no price" in table.err
    assert lode(["top", *asked]) == 0
    assert "COST" not in capsys.readouterr().out
    assert lode(["top", *asked, *since, "--by", "workload"]) == 2
    assert "nobody knows what workloads held before" in capsys.readouterr().err


def test_the_token_of_a_file_is_sent(
    database: FakeDatabase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    items(capsys, "cards", "--prometheus", URL, "--prometheus-token-file", str(tmp_path / "token"))
    assert database.asked[0] == f"{URL} secret"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--since", "7d"], "--since needs --prometheus URL"),
        (["--idle", "2h"], "--idle needs --prometheus URL"),
        (["--prometheus", URL, "--since", "week"], "--since 'week': write a duration from 1m to 366d"),
        (["--prometheus", URL, "--idle", "1s"], "--idle '1s': write a duration"),
        (["--prometheus", URL, "--prometheus-token-file", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    database: FakeDatabase, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    assert lode(["top", "cards", *argv]) == 2
    assert says in capsys.readouterr().err
