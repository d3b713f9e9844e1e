"""Prometheus evaluates each alert on series with which it must fire, and on others with which it must not."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.census import KnownCards, count, peer_exposition
from driver.observe import logger
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.prepare import NamedClaim
from kubeletplugin.share_usage import ShareUsage
from tests.simulation.clock import VirtualClock
from tests.unit.controller.census.fleets import NAMES, SmallFleet, card, claim, pool
from tests.unit.kubeletplugin.hami_regions import UUID, put_region, recorded

ROOT = Path(__file__).parents[2]
RULES = ROOT / "manifests/monitoring/rules.yaml"
CASES: Mapping[str, Any] = yaml.safe_load((ROOT / "tests/data/monitoring/alerts.yaml").read_text())
HAMI: Mapping[str, list[str]] = yaml.safe_load((ROOT / "tests/data/monitoring/hami-board.yaml").read_text())
ALLOCATION = {"namespace": "team", "claim": "c", "node": "n1", "card": "gpu-0", "kind": "gpu"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def annotations(name: str) -> Mapping[str, str]:
    (rule,) = (rule for rule in rules() if rule.get("alert") == name)
    return {"severity": rule["labels"]["severity"]}


def check(program: Path, folder: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool says; "" if all is as expected."""
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (folder / "test.json").write_text(json.dumps(content))  # JSON is YAML
    command = [str(program), "test", "rules", "test.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series(values: Mapping[str, object]) -> list[dict[str, str]]:
    return [{"series": name, "values": str(value)} for name, value in values.items()]


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(alert, values, id=f"{alert}: {name}")
        for alert, case in CASES.items()
        for name, values in case[kind].items()
    ]


def fired(program: Path, folder: Path, alert: str, values: Mapping[str, object]) -> str:
    """What promtool has instead of no alert; "" if there is none."""
    test = {"eval_time": CASES[alert]["at"], "alertname": alert, "exp_alerts": []}
    return check(program, folder, [{"interval": "1m", "input_series": series(values), "alert_rule_test": [test]}])


def test_prometheus_takes_the_rules(program: Path) -> None:
    subprocess.run([str(program), "check", "rules", "--lint-fatal", str(RULES)], check=True, timeout=60)


@pytest.mark.parametrize(("alert", "values"), cases("fires"))
def test_an_alert_fires_and_says_what_about(
    program: Path, tmp_path: Path, alert: str, values: Mapping[str, object]
) -> None:
    said = fired(program, tmp_path, alert, values)
    labels = {"alertname": alert, **CASES[alert]["about"], **annotations(alert)}
    expected = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    assert f"Labels:{{{expected}}}" in said.replace("\n", "")
    assert "{{" not in said.partition("got:")[2], "its words are filled in"


@pytest.mark.parametrize(("alert", "values"), cases("silent"))
def test_an_alert_is_silent_without_its_cause(
    program: Path, tmp_path: Path, alert: str, values: Mapping[str, object]
) -> None:
    assert not fired(program, tmp_path, alert, values)


def test_cards_of_pods_are_as_busy_as_both_vendors_exporters_say(program: Path, tmp_path: Path) -> None:
    def held(pod: str, uuid: str, **more: str) -> str:
        labels = {**ALLOCATION, "pod": pod, "uuid": uuid, "request": "r", "device": "gpu-0", **more}
        return "lode_allocation_info{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"

    inputs = {
        held("gpu", "GPU-1"): "1x10",
        held("share", "GPU-1", claim="d", device="gpu-0-share", kind="gpu-share"): "1x10",
        held("npu", "DIE-1", kind="npu", card="npu-0"): "1x10",
        held("", "GPU-1", claim="unused"): "1x10",
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0"}': "40x10",
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0",GPU_I_ID="1"}': "40x10",
        'npu_chip_info_utilization{vdie_id="DIE-1",id="0"}': "90x10",
    }
    record = "lode:pod_card_utilization:ratio"

    def of(pod: str, uuid: str, claim: str, card: str, value: float) -> dict[str, Any]:
        named = f'claim="{claim}",namespace="team",node="n1",pod="{pod}",card="{card}",uuid="{uuid}"'
        return {"labels": f"{record}{{{named}}}", "value": value}

    samples = [
        of("gpu", "GPU-1", "c", "gpu-0", 0.4),
        of("share", "GPU-1", "d", "gpu-0", 0.4),
        of("npu", "DIE-1", "c", "npu-0", 0.9),
    ]
    test = {"expr": record, "eval_time": "5m", "exp_samples": samples}
    said = check(program, tmp_path, [{"interval": "1m", "input_series": series(inputs), "promql_expr_test": [test]}])
    assert not said


@pytest.mark.parametrize("query", HAMI["answered"])
def test_prometheus_has_data_for_what_hamis_board_asks(program: Path, tmp_path: Path, query: str) -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0")]))
    fleet.put(claim("a", "n1", "gpu-0"))
    has_data(
        program, tmp_path, query, peer_exposition("hami", count(fleet.snapshot(), KnownCards(NAMES), lambda _: 0.0))
    )


def has_data(program: Path, tmp_path: Path, query: str, text: str) -> None:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    inputs = {name: f"{value}x5" for name, _, value in lines}
    test = {"expr": query, "eval_time": "2m", "exp_samples": []}
    said = check(program, tmp_path, [{"interval": "1m", "input_series": series(inputs), "promql_expr_test": [test]}])
    assert re.search(r"got:\s*\S*\{.*\} [\d.e+]+", said), said


@pytest.mark.parametrize("query", HAMI["measured"])
def test_prometheus_has_data_for_what_hamis_board_asks_of_its_monitor(
    program: Path, tmp_path: Path, query: str
) -> None:
    put_region(tmp_path / "run", UUID, "uid-1", recorded("busy"))
    claims = {"uid-1": NamedClaim("team", "c", {"gpu-0-share": UUID})}
    containers = [KubeletClaim("team", "c", frozenset(), "p", "main")]
    usage = ShareUsage(str(tmp_path / "run"), lambda: claims, lambda: containers, VirtualClock(), logger("test"))
    has_data(program, tmp_path, query, usage.hami().decode())


def test_card_hours_and_the_part_of_the_fleet_that_is_held_are_recorded(program: Path, tmp_path: Path) -> None:
    inputs = {
        'lode_namespace_card_seconds_total{namespace="team",type="h100",kind="gpu",replica="a"}': "0+120x1440",
        'lode_fleet_cards{type="h100",ib_cluster="a",state="whole"}': "6x1440",
        'lode_fleet_cards{type="h100",ib_cluster="a",state="free"}': "2x1440",
    }
    recorded = {
        'lode:namespace_card_hours:increase1d{namespace="team",type="h100"}': 48,
        'lode:fleet_allocated:ratio{type="h100"}': 0.75,
    }
    tests = [
        {"expr": labels.partition("{")[0], "eval_time": "1d", "exp_samples": [{"labels": labels, "value": value}]}
        for labels, value in recorded.items()
    ]
    said = check(program, tmp_path, [{"interval": "1m", "input_series": series(inputs), "promql_expr_test": tests}])
    assert not said
