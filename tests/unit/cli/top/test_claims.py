"""``lode top claims`` says which card each claim has, whatever others wrote into the status of claims."""

import json
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from cli.top.claims import report_on
from driver.kube.api import NODES, RESOURCE_CLAIMS, Forbidden, Object
from driver.names import Names
from tests.unit.cli.cluster import claim, pod
from tests.unit.cli.user import User, add, hold

CARD = {"driver": "lode.dev", "pool": "g/lode.dev", "device": "gpu-1"}
FACTS = {
    "apiVersion": "lode.dev/v1alpha1",
    "kind": "DeviceFacts",
    "node": "g",
    "card": "gpu-1",
    "uuid": "GPU-7",
    "type": "T4",
    "memory": "16Gi",
    "cores": 100,
    "pciBusID": "0000:86:00.0",
}


def held(cluster: User, name: str = "c", *users: str, data: object = FACTS) -> None:
    pods = [add(cluster, pod(user, name)) for user in users]
    hold(cluster, name, "g/gpu-1", *pods, devices=[{**CARD, "data": data}])


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert lode(["top", "claims", *argv]) == 0
    return capsys.readouterr().out


def test_a_line_for_each_device_says_which_card_it_is(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    held(cluster, "c", "p", "q")
    add(cluster, claim("pending"))
    assert [line.split() for line in shown(capsys).splitlines()] == [
        ["NAMESPACE", "CLAIM", "POD", "NODE", "DEVICE", "UUID", "TYPE", "MEMORY", "CORES"],
        ["default", "c", "p,q", "g", "gpu-1", "GPU-7", "T4", "16Gi", "100"],
    ]


def test_wide_has_more_columns(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    held(cluster)
    header, row = (line.split() for line in shown(capsys, "-o", "wide").splitlines())
    assert header[9:] == ["PROFILE", "PCI", "SHARING", "ENFORCES"]
    assert row[9:] == ["<none>", "0000:86:00.0", "<none>", "<none>"]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_same(cluster: User, capsys: pytest.CaptureFixture[str], output: str, read: Any) -> None:
    held(cluster, "c", "p")
    assert read(shown(capsys, "-o", output)) == {
        "items": [
            {
                "namespace": "default",
                "claim": "c",
                "usedBy": ["p"],
                "node": "g",
                "device": "gpu-1",
                **{name: FACTS[name] for name in ("uuid", "type", "memory", "pciBusID", "cores")},
            }
        ]
    }


def test_of_a_share_the_amounts_are_those_of_the_allocation() -> None:
    amounts = {"memory": "3000Mi", "cores": "30", "slots": "1"}
    found = {**CARD, "device": "gpu-1-share", "shareID": "s"}
    result = {**found, "request": "r", "consumedCapacity": amounts}
    data = {**FACTS, "sharing": "mps", "enforces": ["memory", "cores"], "memory": "1Ti", "cores": 1}
    (item,) = items(result, {**found, "data": data})
    assert {name: item[name] for name in ("uuid", "memory", "cores", "sharing", "enforces")} == {
        "uuid": "GPU-7",
        "memory": "3000Mi",
        "cores": 30,
        "sharing": "mps",
        "enforces": ["memory", "cores"],
    }


def test_a_claim_that_only_looks_at_a_card_has_none_of_it() -> None:
    (item,) = items({**CARD, "request": "r", "adminAccess": True}, {**CARD, "data": {**FACTS, "cores": 100}})
    assert item["adminAccess"]
    assert not {"memory", "cores"} & item.keys()


def items(result: Object, *entries: Object) -> Any:
    """The rows of a claim with this device and these entries of ``status.devices``."""
    status = {"allocation": {"devices": {"results": [result]}}, "devices": [*entries]}
    raw = claim("c")
    return report_on([{**raw, "metadata": {**raw["metadata"], "namespace": "a"}, "status": status}], Names()).items


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        [],
        {name: [] for name in FACTS},
        {name: {"a": 1} for name in FACTS},
        dict.fromkeys(FACTS, "\x1b[2J"),
        dict.fromkeys(FACTS, "x" * 10000),
        {"enforces": "everything", "cores": "all"},
        {"enforces": [["time"], {"a": 1}, "\x1b[2J"]},
    ],
)
def test_what_others_wrote_does_no_harm(data: object) -> None:
    (item,) = items({**CARD, "request": "r"}, {**CARD, "data": data})
    assert {name: item[name] for name in ("claim", "device")} == {"claim": "c", "device": "gpu-1"}
    assert not {"uuid", "type", "memory", "cores"} & item.keys()
    assert not item.get("enforces")


def test_an_entry_of_another_device_says_nothing_about_this_one() -> None:
    (item,) = items({**CARD, "request": "r"}, {**CARD, "device": "gpu-2", "data": FACTS})
    assert "uuid" not in item


def test_devices_of_other_drivers_are_left_out() -> None:
    assert items({**CARD, "driver": "gpu.example", "request": "r"}) == ()


def test_a_claim_that_makes_no_sense_is_named_and_left_out() -> None:
    good = {**claim("good"), "status": {"allocation": {"devices": {"results": [{**CARD, "request": "r"}]}}}}
    bad = {**claim("bad"), "status": {"allocation": {"devices": {"results": [7]}}}}
    found = report_on([bad, good], Names())
    assert [item["claim"] for item in found.items] == ["good"]
    (note,) = found.notes
    assert note.startswith("ResourceClaim /bad is left out")


def test_without_claims_it_says_so_and_succeeds(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["top", "claims"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "No claims hold devices of lode.dev in namespace default.\n"


def test_it_takes_the_right_to_list_claims_in_the_namespace_and_no_other(
    cluster: User, capsys: pytest.CaptureFixture[str]
) -> None:
    held(cluster)
    cluster.asked.clear()
    cluster.denied = {("list", RESOURCE_CLAIMS, ""), ("list", NODES, "")}
    assert "gpu-1" in shown(capsys)
    assert cluster.asked == [("list", "resourceclaims")]
    assert lode(["top", "claims", "-A"]) == 2
    assert (
        "you may not list resourceclaims of API group resource.k8s.io in the whole cluster" in capsys.readouterr().err
    )


def test_options_may_be_written_before_the_subject(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    held(cluster)
    assert lode(["top", "-n", "default", "claims"]) == 0
    assert "gpu-1" in capsys.readouterr().out
    assert lode(["-n", "other", "top", "claims"]) == 0
    assert "in namespace other" in capsys.readouterr().err


def test_an_api_that_does_not_answer_is_reported(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.error = Forbidden("who are you", status=401)
    assert lode(["top", "claims"]) == 2
    assert "log in" in capsys.readouterr().err
