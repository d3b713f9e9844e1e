"""``lode top gangs`` says how many members each gang has and needs, where they are, and why it waits."""

import json
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.kube.api import JOBS, RESOURCE_SLICES, Object
from tests.unit.cli.cluster import allocated, claim, pod
from tests.unit.cli.user import User, add, said

GATE = [{"name": "lode.dev/allocation"}]


def member(cluster: User, number: int, device: str = "", minimum: int = 2, **spec: Any) -> Object:
    """A pod of the gang ``train`` with its claim; it has the device, or waits at our gate."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": "train", "minAvailable": minimum},
    }
    wanted = claim(f"c{number}")
    wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    status = allocated(wanted, f"g/{device}")["status"] if device else {}
    add(cluster, wanted, **status)
    gates: Any = {} if device else {"schedulingGates": GATE}
    waits = {} if device else {"conditions": [said("Unallocatable", "2 of 3 members fit")]}
    return add(cluster, pod(f"w{number}", f"c{number}", **gates, **spec), **waits)


def gangs(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[list[Any], str]:
    assert lode(["top", "gangs", *argv, "-o", "json"]) == 0
    told = capsys.readouterr()
    return json.loads(told.out)["items"] if told.out else [], told.err


def test_a_gang_that_runs_has_its_cards_and_nodes(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    member(cluster, 0, "gpu-0", nodeName="g")
    member(cluster, 1, "gpu-1", nodeName="g")
    ((gang,), _) = gangs(capsys)
    assert {name: gang[name] for name in ("namespace", "gang", "members", "needed", "allocated", "running")} == {
        "namespace": "default",
        "gang": "train",
        "members": 2,
        "needed": 2,
        "allocated": 2,
        "running": 2,
    }
    assert (gang["cards"], gang["nodes"]) == (2.0, 1)
    assert "reason" not in gang


def test_a_gang_that_waits_has_the_reason(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        member(cluster, number, minimum=3)
    assert lode(["top", "gangs"]) == 0
    header, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header[:3] == ["NAMESPACE", "GANG", "MEMBERS"]
    assert row == ["default", "train", "3", "3", "0", "0", "0", "0", "<none>", "Unallocatable"]
    ((gang,), _) = gangs(capsys, "train")
    assert gang["message"] == "2 of 3 members fit"
    assert gangs(capsys, "other")[0] == []


def test_what_may_not_be_read_is_noted(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    member(cluster, 0, "gpu-0", nodeName="g")
    cluster.denied = {("list", RESOURCE_SLICES, ""), ("list", JOBS, "default")}
    ((gang,), notes) = gangs(capsys)
    assert gang["members"] == 1
    assert "so the fabrics of gangs are not known" in notes


def test_no_gang_at_all_is_said(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    add(cluster, pod("p"))
    assert gangs(capsys)[0] == []
    assert lode(["top", "gangs"]) == 0
    assert "No gangs ask for devices of lode.dev in namespace default." in capsys.readouterr().err
