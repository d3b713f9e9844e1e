"""What the API server takes in ``status.devices``: entries of allocated devices, small documents, few conditions."""

import json
import re
import shlex
from pathlib import Path

import pytest

from driver.device_facts import device_statuses
from driver.kube.api import NAMESPACES, RESOURCE_CLAIMS, Api, Invalid, Object
from driver.names import Names
from driver.wire import allocation_from
from testclusters.controlplane import ControlPlane
from tests.contract.objects import allocation, claim, consumer

ENTRY: Object = {"driver": "lode.dev", "pool": "node-1/lode.dev", "device": "gpu-0"}
PAGE = Path(__file__).parents[2] / "docs/devices.md"
MOST = 10 * 1024
"""Bytes of a document that the API server stores."""
EMPTY = len(json.dumps({"a": ""}, separators=(",", ":")))


def conditions(count: int, **fields: object) -> list[Object]:
    whole = {"status": "True", "reason": "Works", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    return [{"type": f"Ready{number}", **whole, **fields} for number in range(count)]


def write(api: Api, namespace: str, *entries: Object) -> Object:
    """Allocate a claim with these entries in one write; returns it as stored."""
    stored = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    status = {"allocation": allocation(), "reservedFor": [consumer("u1")], "devices": [*entries]}
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    return api.patch(
        RESOURCE_CLAIMS, "c", {"metadata": version, "status": status}, namespace=namespace, subresource="status"
    )


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY,
        {**ENTRY, "data": {}},
        {**ENTRY, "data": {"a": "x" * (MOST - EMPTY)}},
        {**ENTRY, "conditions": conditions(8)},
    ],
)
def test_an_entry_is_written_with_its_allocation(api: Api, namespace: str, entry: Object) -> None:
    (found,) = write(api, namespace, entry)["status"]["devices"]
    assert {name: found.get(name) for name in ENTRY} == ENTRY
    assert found.get("data") == entry.get("data")
    # The API server writes the field even if there are none.
    assert len(found["conditions"] or ()) == len(entry.get("conditions", ()))


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ([{**ENTRY, "data": {"a": "x" * (MOST - EMPTY + 1)}}], "status.devices[0].data"),
        ([{**ENTRY, "data": "text"}], "status.devices[0].data"),
        ([{**ENTRY, "data": [1]}], "status.devices[0].data"),
        ([{**ENTRY, "conditions": conditions(9)}], "status.devices[0].conditions"),
        ([{**ENTRY, "conditions": conditions(1, reason="")}], "status.devices[0].conditions[0].reason"),
        ([{**ENTRY, "conditions": conditions(1, status="Yes")}], "status.devices[0].conditions[0].status"),
        ([ENTRY, ENTRY], "status.devices[1]"),
        ([ENTRY, {**ENTRY, "device": "gpu-1"}], "status.devices[1]"),
        ([{**ENTRY, "shareID": "11111111-2222-4333-8444-555555555555"}], "status.devices[0]"),
    ],
)
def test_others_are_refused(api: Api, namespace: str, entries: list[Object], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        write(api, namespace, *entries)
    assert field in str(refusal.value)


def test_entries_go_with_the_allocation(api: Api, namespace: str) -> None:
    write(api, namespace, ENTRY)
    cleared = {"status": {"allocation": None, "reservedFor": None}}
    left = api.patch(RESOURCE_CLAIMS, "c", cleared, namespace=namespace, subresource="status")
    assert not left.get("status")


def test_what_we_write_is_stored_as_it_is(api: Api, namespace: str) -> None:
    wanted = device_statuses(allocation_from(allocation()), Names(), lambda _: None)
    assert write(api, namespace, *wanted)["status"]["devices"] == [{**one, "conditions": None} for one in wanted]


def test_the_documented_columns_of_kubectl_show_it(admin: Api, control_plane: ControlPlane, unique: str) -> None:
    admin.create(NAMESPACES, {"metadata": {"name": unique}})
    facts = {"card": "gpu-0", "node": "node-1", "uuid": "GPU-7", "type": "A100", "memory": "80Gi"}
    write(admin, unique, {**ENTRY, "data": facts})
    (command,) = re.findall("^kubectl (get resourceclaims -o custom-columns=.*)$", PAGE.read_text(), re.MULTILINE)
    printed = control_plane.kubectl(*shlex.split(command), "-n", unique).stdout.splitlines()
    assert [line.split() for line in printed] == [
        ["CLAIM", "NODE", "DEVICE", "UUID", "TYPE", "MEMORY"],
        ["c", "node-1", "gpu-0", "GPU-7", "A100", "80Gi"],
    ]
