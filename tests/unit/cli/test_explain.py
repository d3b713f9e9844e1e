"""``lode explain`` tells of live objects what is so, and of what waits the controller's decision and its reasons."""

import time
from datetime import datetime
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.kube.api import (
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Forbidden,
    Unavailable,
)
from tests.unit.cli.cluster import claim, node, pod, slices
from tests.unit.cli.user import User, add, hold, pending, said


def test_an_allocated_claim_tells_what_it_holds_where_for_whom(cluster: User, explained: Any) -> None:
    holder = add(cluster, pod("p", "c"))
    device = {"driver": "lode.dev", "pool": "g/lode.dev", "device": "gpu-1"}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Prepared",
        "message": "",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    hold(cluster, "c", "g/gpu-1", holder, devices=[{**device, "conditions": [condition]}])
    answer = explained("claim/c")
    assert answer.status == 0
    assert answer.json == {
        "kind": "ResourceClaim",
        "namespace": "default",
        "name": "c",
        "result": "allocated",
        "node": "g",
        "claims": [
            {
                "name": "c",
                "state": "held",
                "devices": [{"request": "r", **device, "status": {"conditions": [condition]}}],
                "reservedFor": ["pods/p"],
            }
        ],
        "notes": [],
    }
    shown = explained("claim/c", output="table").out
    assert "ResourceClaim default/c has its devices, on node g." in shown
    assert "Device gpu-1 of pool g/lode.dev: Ready is True (Prepared)" in shown


def test_what_is_allocated_takes_no_right_but_to_get_it(cluster: User, explained: Any) -> None:
    made = add(cluster, pod("p", "c"))
    hold(cluster, "c", "g/gpu-1", made)
    cluster.asked.clear()
    assert explained("pod/p").json["result"] == "allocated"
    assert explained("claim/c").json["result"] == "allocated"
    assert cluster.asked == [("get", "pods"), ("get", "resourceclaims"), ("get", "resourceclaims")]


def test_a_pod_that_could_have_its_devices_now_is_told_which(cluster: User, explained: Any) -> None:
    hold(cluster, "other", "g/gpu-0", add(cluster, pod("o", "other")))
    add(cluster, claim("c"))
    add(cluster, pod("p", "c", schedulingGates=[{"name": "lode.dev/allocation"}]))
    answer = explained("pod/p")
    assert (answer.status, answer.json["result"], answer.json["node"]) == (0, "placed", "g")
    assert answer.json["claims"][0]["devices"][0]["device"] == "gpu-1"
    assert "nothing stands in its way" in explained("p", output="table").out
    assert not cluster.api.get(RESOURCE_CLAIMS, "c", "default")["status"], "nothing is written"


def test_a_pod_is_told_why_it_would_not_get_the_cards_with_the_best_links(cluster: User, explained: Any) -> None:
    cluster.api.create(NODES, node("v"))
    for part in slices("v", "v100x8", ("whole",)):
        cluster.api.create(RESOURCE_SLICES, part)
    for card in (2, 6):
        hold(cluster, f"c{card}", f"v/gpu-{card}", add(cluster, pod(f"h{card}", f"c{card}", nodeName="v")))
    near = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": "binpack"}
    pair = claim("pair", count=2)
    pair["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": near}}]
    add(cluster, pair)
    add(cluster, pod("p", "pair", schedulingGates=[{"name": "lode.dev/allocation"}]))
    assert (
        "Claim default/pair, request r: gpu-0 and gpu-3 have 2 links; gpu-2 and gpu-3 are closer (behind 1 instead of "
        "2 PCIe switches), but gpu-2 is in use by default/c2"
    ) in explained("pod/p", output="table").out


def test_a_pod_that_waits_is_told_why_and_what_the_controller_said(cluster: User, explained: Any) -> None:
    hold(cluster, "held", "g/gpu-0", add(cluster, pod("o", "held")))
    add(cluster, claim("c", count=2))
    said = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": "earlier words"}
    add(cluster, pod("p", "c"), conditions=[{**said, "lastTransitionTime": "2027-01-15T07:00:00Z"}])
    answer = explained("pods/p")
    assert (answer.status, answer.json["result"], answer.json["reason"]) == (1, "waiting", "Unallocatable")
    assert "1 in use" in answer.json["message"]
    assert "default/held" in answer.json["message"]
    assert answer.json["controller"]["message"] == "earlier words"
    shown = explained("pod/p", output="table").out
    assert "Pod default/p waits (Unallocatable):" in shown
    assert "earlier words" in shown
    assert "<pending>" in shown


def test_a_pending_claim_is_decided_with_its_pod(cluster: User, explained: Any) -> None:
    add(cluster, claim("c"))
    add(cluster, claim("all", allocationMode="All"))
    add(cluster, pod("p", "c", "all"))
    answer = explained("claim/c")
    assert answer.status == 1
    assert [one["name"] for one in answer.json["claims"]] == ["c"]
    assert any("its pod p" in note for note in answer.json["notes"])


def test_a_claim_that_no_pod_uses_is_asked_for_alone(cluster: User, explained: Any) -> None:
    add(cluster, claim("c"))
    answer = explained("c")
    assert (answer.status, answer.json["result"], answer.json["node"]) == (0, "placed", "g")
    assert any("no pod uses the claim" in note for note in answer.json["notes"])


def test_a_pod_whose_claim_is_missing_says_so_with_or_without_the_gate(cluster: User, explained: Any) -> None:
    for name, gates in (("p", []), ("q", [{"name": "lode.dev/allocation"}])):
        add(cluster, pod(name, "absent", schedulingGates=gates))
        answer = explained(name)
        assert (answer.status, answer.json["reason"]) == (1, "ClaimMissing")


def test_a_pod_that_asks_for_nothing_of_ours_is_not_ours_to_explain(cluster: User, explained: Any) -> None:
    add(cluster, pod("p"))
    answer = explained("p", output="table")
    assert (answer.status, answer.out) == (
        0,
        "Pod default/p asks for no devices of this driver; kube-scheduler decides about it.\n",
    )


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["absent"], "no Pod and no ResourceClaim absent in namespace default; choose another namespace with -n"),
        (["claim/absent", "-n", "team"], "no ResourceClaim absent in namespace team"),
        (["both"], "there is a pod and a claim both; write pod/both or claim/both"),
        (["node/g"], "'node/g' names nothing; write pod/NAME, claim/NAME, gang/NAME, card/NODE/CARD,"),
        (["pod/"], "'pod/' names nothing"),
        (["pod/Job/train"], "'pod/Job/train' names nothing"),
        (["p", "--kubeconfig", "broken"], "name another in $KUBECONFIG"),
    ],
)
def test_what_cannot_be_explained_names_the_remedy(cluster: User, explained: Any, argv: list[str], says: str) -> None:
    add(cluster, pod("both"))
    add(cluster, claim("both"))
    answer = explained(*argv)
    assert (answer.status, answer.out) == (2, "")
    assert says in answer.err


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Unavailable("GET /api: refused"), "gave no usable answer: GET /api: refused; see that the kubeconfig"),
        (Forbidden("Unauthorized", status=401), "the API server does not know you: Unauthorized; log in"),
    ],
)
def test_an_api_that_does_not_answer_is_told_without_a_traceback(
    cluster: User, explained: Any, capsys: pytest.CaptureFixture[str], error: Exception, says: str
) -> None:
    cluster.error = error
    assert says in explained("p").err
    assert lode(["simulate", "--live"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "kube-scheduler refuses the pod on 1 node: node(s) had volume node affinity conflict. 0 of 1 node can ...",
        "0 of 1 node can take the pod. 1 node: held back for pod default/large, which comes first",
    ],
    ids=["refused", "held back"],
)
def test_a_pod_that_only_the_controller_knows_why_it_waits_is_not_said_to_get_its_devices(
    words: str, cluster: User, explained: Any
) -> None:
    add(cluster, claim("c"))
    add(cluster, pod("p", "c"), conditions=[said("Unallocatable", words)])
    answer = explained("p")
    assert (answer.status, answer.json["controller"]["message"]) == (1, words)
    (note,) = answer.json["notes"]
    assert (
        "no object of the API says on which nodes kube-scheduler refused a pod, nor which nodes are held back" in note
    )
    shown = explained("p", output="table").out
    assert "Pod default/p waits. There are devices for it, on node g, but the controller does not give" in shown
    assert words in shown


def test_a_message_that_is_out_of_date_is_shown_without_that_note(cluster: User, explained: Any) -> None:
    add(cluster, claim("c"))
    add(cluster, pod("p", "c"), conditions=[said("Unallocatable", "0 of 1 node can take the pod. 1 node: not ready")])
    answer = explained("p")
    assert (answer.status, answer.json["notes"]) == (1, [])


def test_a_pod_that_kube_scheduler_refuses_is_told_so_and_that_it_loses_its_devices(
    cluster: User, explained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.api.create(NODES, node("h"))
    for part in slices("h", "t4x2", ("whole",)):
        cluster.api.create(RESOURCE_SLICES, part)
    message = "0/2 nodes are available: 1 Insufficient example.com/x, 1 resourceclaim not available on the node."
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made = add(cluster, pod("p", "c"), conditions=[refused, said("Allocated", "on node g", "True")])
    hold(cluster, "c", "g/gpu-1", made)
    now = cluster.api.get(RESOURCE_CLAIMS, "c", "default")["status"]["allocation"]["allocationTimestamp"]
    allocated_at = datetime.fromisoformat(now).timestamp()
    monkeypatch.setattr(time, "time", lambda: allocated_at + 1)
    refusal = "kube-scheduler refuses the pod on node g: Insufficient example.com/x"
    assert f"Pod default/p waits (Refused):\n  {refusal}" in explained("p", output="table").out
    monkeypatch.setattr(time, "time", lambda: allocated_at + 60)
    shown = explained("p", output="table").out
    assert (
        "Pod default/p loses its devices: on node g, kube-scheduler refuses the pod there: Insufficient example.com/x. "
        "It would get these instead, on node h." in shown
    )


def test_an_unhealthy_device_of_a_pod_is_named(cluster: User, explained: Any) -> None:
    devices = [
        {"resourceID": "lode.dev/claim=u_r_gpu-1", "health": "Unhealthy", "message": "Xid 79"},
        {"resourceID": "lode.dev/claim=u_r_gpu-0", "health": "Healthy"},
    ]
    container = {
        "name": "main",
        "image": "app:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResourcesStatus": [{"name": "claim:c0", "resources": devices}],
    }
    hold(cluster, "c", "g/gpu-1", add(cluster, pod("p", "c"), containerStatuses=[container]))
    answer = explained("p")
    assert answer.json["notes"] == ["container main: the device lode.dev/claim=u_r_gpu-1 is unhealthy: Xid 79"]


@pytest.mark.parametrize(
    ("holder", "renewed", "leads"),
    [
        ("one", "2999-01-01T00:00:00Z", True),
        ("", "2999-01-01T00:00:00Z", False),
        ("one", "2020-01-01T00:00:00Z", False),
    ],
    ids=["leads", "released", "expired"],
)
def test_a_pod_that_nobody_allocates_for_is_told_that_no_controller_leads(
    holder: str, renewed: str, leads: bool, cluster: User, explained: Any
) -> None:
    add(cluster, claim("c"))
    add(cluster, pod("p", "c", schedulingGates=[{"name": "lode.dev/allocation"}]))
    assert explained("p").json["notes"] == [], "without a Lease nothing is known"
    cluster.api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    cluster.api.create(LEASES, {"metadata": {"name": "lode-controller"}, "spec": spec}, "lode-system")
    notes = explained("p").json["notes"]
    assert ["no controller leads" in note for note in notes] == ([] if leads else [True])
    cluster.denied = {("get", LEASES, "lode-system")}
    assert explained("p").json["notes"] == []


def test_gates_of_others_are_named(cluster: User, explained: Any) -> None:
    add(cluster, claim("c"))
    add(cluster, pod("p", "c", schedulingGates=[{"name": "example.com/quota"}, {"name": "lode.dev/allocation"}]))
    assert "gates of others: example.com/quota; whoever" in explained("p").json["message"]


def test_pods_that_are_served_first_are_counted(cluster: User, explained: Any) -> None:
    gates, clock = [{"name": "lode.dev/allocation"}], cluster.clock
    for name, priority in (("urgent", 5), ("older", 0), ("p", 0), ("later", -1)):
        add(cluster, claim(f"c-{name}", count=3))
        add(cluster, pod(name, f"c-{name}", schedulingGates=gates, priority=priority))
        clock.advance(1)
    (note,) = explained("p").json["notes"]
    assert note == "2 pods that wait come before it, by priority, then age; the first is default/urgent"
    assert explained("urgent").json["notes"] == []
    (note,) = explained("older").json["notes"]
    assert note == "1 pod that waits comes before it, by priority, then age; the first is default/urgent"


def test_a_pod_with_a_volume_waits_for_it(cluster: User, explained: Any) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pending(cluster, volumes=[volume])
    answer = explained("pod/p")
    assert (answer.status, answer.json["result"]) == (1, "waiting")
    assert "PersistentVolumeClaim default/data does not exist" in answer.json["message"]
    cluster.denied = {("list", PERSISTENT_VOLUMES, "")}
    answer = explained("pod/p")
    assert (answer.status, answer.json["result"]) == (0, "placed")
    assert (
        "PersistentVolume: not read, so that volumes exclude no node; with volumes Pod default/p is waiting"
        in (answer.json["notes"])
    )
