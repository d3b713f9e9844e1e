"""``lode top namespaces`` says what each namespace holds, what its quotas allow, and how many of its pods wait."""

import json
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.fleetview import ViewBuilder
from cli.top.namespaces import FoundNamespaces
from cli.top.question import Question
from cli.top.report import Listing
from driver.kube.api import RESOURCE_QUOTAS, Object
from driver.names import Names
from tests.unit.cli.user import User, hold

NAMES = Names()


def report_on(claims: list[Object], pods: list[Object], quotas: list[Object], slices: list[Object]) -> Listing:
    builder, found = ViewBuilder(NAMES), FoundNamespaces(NAMES)
    builder.add_claims(claims)
    builder.add_slices(slices)
    found.add_pods(pods)
    found.add_quotas(quotas)
    return found.report(builder.view(), Question(NAMES))


def device(name: str, memory: str, kind: str = "T4") -> Object:
    attributes = {"type": {"string": kind}}
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": memory}, "cores": {"value": "100"}},
    }


SLICE: Object = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "lode.dev",
        "nodeName": "g",
        "pool": {"name": "g/lode.dev", "generation": 1, "resourceSliceCount": 1},
        "devices": [device("gpu-0", "16Gi"), device("gpu-1", "80Gi", "H100"), device("gpu-2-share", "16Gi")],
    },
}


def claim(namespace: str, name: str, device: str, **result: Any) -> Object:
    one = {"request": "r", "driver": "lode.dev", "pool": "g/lode.dev", "device": device, **result}
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}]}},
        "status": {"allocation": {"devices": {"results": [one]}}},
    }


def pod(namespace: str, reason: str, *, gate: str = "lode.dev/allocation", status: str = "False") -> Object:
    return {
        "metadata": {"namespace": namespace, "name": f"p-{reason}"},
        "spec": {"schedulingGates": [{"name": gate}]},
        "status": {"conditions": [{"type": "lode.dev/Allocated", "status": status, "reason": reason}]},
    }


def quota(namespace: str, name: str = "q", **hard: str) -> Object:
    spec = {"hard": {f"lode.dev/{key.replace('_', '.')}": value for key, value in hard.items()}}
    return {"metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": spec}


def test_each_namespace_has_what_it_holds_its_limits_and_its_waiting_pods() -> None:
    share = {"shareID": "s", "consumedCapacity": {"memory": "4Gi", "cores": "30"}}
    claims = [claim("a", "one", "gpu-0"), claim("a", "two", "gpu-1"), claim("b", "three", "gpu-2-share", **share)]
    pods = [
        pod("a", "QuotaExceeded"),
        pod("a", "Unallocatable"),
        pod("c", "Unallocatable"),
        pod("d", "Allocated", status="True"),
        pod("d", "Unallocatable", gate="other"),
    ]
    quotas = [quota("a", "q", memory="100Gi", cores="400"), quota("a", "r", cores="300", memory_H100="80Gi")]
    report = report_on(claims, pods, [*quotas, quota("d")], [SLICE])
    a, b, c = report.items
    assert a == {
        "namespace": "a",
        "cards": 2.0,
        "memory": "96Gi",
        "memoryLimit": "100Gi",
        "cores": "200",
        "coresLimit": "300",
        "waiting": 2,
        "overQuota": 1,
        "byType": ["cores.H100=100", "cores.T4=100", "memory.H100=80Gi/80Gi", "memory.T4=16Gi"],
        "quotas": ["q", "r"],
    }
    assert {key: b[key] for key in ("cards", "memory", "cores", "waiting", "overQuota")} == {
        "cards": 0.3,
        "memory": "4Gi",
        "cores": "30",
        "waiting": 0,
        "overQuota": 0,
    }
    assert c == {"namespace": "c", "waiting": 1, "overQuota": 0}
    assert not report.notes


def test_what_cannot_be_understood_is_noted_and_hides_nothing_else() -> None:
    broken: Object = {"metadata": {"namespace": "a", "name": "x"}, "spec": {"devices": 5}, "status": {"allocation": 7}}
    odd_slice: Object = {"metadata": {"name": "odd"}, "spec": {"driver": "lode.dev", "pool": 1}}
    odd_quota: Object = {"metadata": {"namespace": "a", "name": "odd"}, "spec": 7}
    report = report_on([broken, claim("a", "one", "gpu-0")], [], [odd_quota, quota("b", wrong="1")], [odd_slice, SLICE])
    assert [(item["namespace"], item.get("memory")) for item in report.items] == [("a", "16Gi"), ("b", None)]
    odd, claim_note, quota_note, invalid = report.notes
    assert odd.startswith("ResourceSlice odd is left out")
    assert claim_note.startswith("ResourceClaim a/x is left out")
    assert quota_note.startswith("ResourceQuota a/odd is left out")
    assert invalid.startswith("ResourceQuota b/q allows nothing: spec.hard[lode.dev/wrong]: unknown")


def test_it_is_asked_as_other_subjects_are(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    hold(cluster, "c", "g/gpu-1")
    cluster.api.create(RESOURCE_QUOTAS, quota("default", cores="400"))
    assert lode(["top", "namespaces", "-A"]) == 0
    header, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header == ["NAMESPACE", "CARDS", "MEMORY", "LIMIT", "CORES", "LIMIT", "WAITING", "OVER-QUOTA", "CARD-HOURS"]
    assert row[0] == "default"
    assert (row[1], row[4:]) == ("1", ["100", "400", "0", "0", "-"])
    assert lode(["top", "namespaces", "-n", "default", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["quotas"] == ["q"]


def test_a_missing_right_is_named(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.denied.add(("list", RESOURCE_QUOTAS, "default"))
    assert lode(["top", "namespaces"]) == 2
    assert "you may not list resourcequotas in namespace default" in capsys.readouterr().err


def test_a_namespace_with_nothing_is_said_to_have_none(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["top", "namespaces"]) == 0
    assert "No namespaces hold devices of lode.dev in namespace default." in capsys.readouterr().err
