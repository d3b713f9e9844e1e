"""``lode explain card/NODE/CARD`` and ``namespace/NAME``: who holds what, what is left, what closes it, who waits."""

from typing import Any

import pytest

from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Object,
)
from tests.unit.cli.cluster import allocated, claim, node, pod, slices
from tests.unit.cli.user import User, add, hold, said

SHARE = "11111111-1111-1111-1111-111111111111"
GATE = [{"name": "lode.dev/allocation"}]


def share(cluster: User, name: str, device: str, **amounts: str) -> None:
    """A claim that holds a share on node ``g``, used by a pod of the same name."""
    user = add(cluster, pod(name, name))
    status = allocated(claim(name), f"g/{device}", name, shareID=SHARE, consumedCapacity=amounts)["status"]
    status["reservedFor"][0]["uid"] = user["metadata"]["uid"]
    add(cluster, claim(name), **status)


def replace_cards(cluster: User, *parts: Object) -> None:
    for old in cluster.api.list(RESOURCE_SLICES).items:
        cluster.api.delete(RESOURCE_SLICES, old["metadata"]["name"])
    for part in parts:
        cluster.api.create(RESOURCE_SLICES, part)


def test_a_free_card_can_be_had(cluster: User, explained: Any) -> None:
    answer = explained("card/g/gpu-0")
    assert answer.status == 0
    assert {name: answer.json[name] for name in ("kind", "node", "name", "use", "largestFree", "closedBy")} == {
        "kind": "Card",
        "node": "g",
        "name": "gpu-0",
        "use": "free",
        "largestFree": "15Gi",
        "closedBy": [],
    }
    shown = explained("card/g/gpu-0", output="table").out
    assert "is held by nobody. A claim can get up to 15Gi of its 15Gi of memory." in shown


def test_a_shared_card_has_its_holders_and_what_is_left(cluster: User, explained: Any) -> None:
    replace_cards(cluster, *slices("g", "t4x2", ("share",), ib_cluster="ib-1"))
    share(cluster, "nb", "gpu-0-share", memory="4Gi", cores="25")
    answer = explained("cards/g/0")
    (holder,) = answer.json["holders"]
    assert (holder["claim"], holder["usedBy"], holder["memory"], holder["cores"]) == ("nb", ["nb"], "4Gi", 25)
    assert (answer.json["largestFree"], answer.json["ibCluster"]) == ("11Gi", "ib-1")
    shown = explained("card/g/gpu-0-share", output="table").out.splitlines()
    assert shown[0].endswith("is shared. A claim can get up to 11Gi of its 15Gi of memory.")
    assert "InfiniBand cluster ib-1" in shown[2]
    assert shown[-1].split()[:6] == ["default", "nb", "nb", "gpu-0-share", "4Gi", "25"]


def test_a_card_that_is_held_whole_has_nothing_left(cluster: User, explained: Any) -> None:
    hold(cluster, "c", "g/gpu-1")
    assert "is held as a whole. Nothing of it is left." in explained("card/g/1", output="table").out


def test_a_card_is_named_by_the_beginning_of_its_uuid(cluster: User, explained: Any) -> None:
    uuid = explained("card/g/gpu-1").json["uuid"]
    assert explained(f"card/g/{uuid[:12]}").json["name"] == "gpu-1"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("unhealthy", "It is unhealthy: the plugin of its node says that it does not work"),
        ("other-driver", "It is foreign: another driver hands it out"),
        ("releasing", "It is releasing: an earlier claim is not off it yet"),
    ],
)
def test_what_closes_a_card_is_said_with_the_remedy(cluster: User, explained: Any, key: str, says: str) -> None:
    (part,) = slices("g", "t4x2", ("whole",))
    part["spec"]["devices"][0]["taints"] = [{"key": f"lode.dev/{key}", "effect": "NoSchedule"}]
    replace_cards(cluster, part)
    answer = explained("card/g/gpu-0", output="table")
    assert answer.status == 1
    assert says in answer.out
    assert "No claim gets anything of it." in answer.out


def test_a_cordoned_card_names_the_rules_and_the_node(cluster: User, explained: Any) -> None:
    rule = {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": DEVICE_TAINT_RULES.kind,
        "metadata": {"name": "repair"},
        "spec": {
            "deviceSelector": {"driver": "lode.dev", "pool": "g/lode.dev"},
            "taint": {"key": "x", "effect": "NoSchedule"},
        },
    }
    cluster.api.create(DEVICE_TAINT_RULES, rule)
    cluster.api.patch(NODES, "g", {"spec": {"unschedulable": True}})
    answer = explained("card/g/gpu-0")
    assert answer.status == 1
    messages = " ".join(one["message"] for one in answer.json["closedBy"])
    assert "by the DeviceTaintRule repair; lode uncordon g/gpu-0" in messages
    assert "kubectl uncordon g opens it" in messages


def test_a_card_that_is_held_and_published_no_more_is_told(cluster: User, explained: Any) -> None:
    hold(cluster, "c", "g/gpu-9")
    answer = explained("card/g/gpu-9", output="table")
    assert answer.status == 1
    assert "It is unpublished: its node does not publish it any more" in answer.out


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("card/g", "'g' names no card; write card/NODE/CARD"),
        ("card/g/7", "node g has no card '7'; its cards: gpu-0"),
        ("card/other/gpu-0", "node other has no card 'gpu-0'; its cards: none"),
        ("pod/g/gpu-0", "'pod/g/gpu-0' names nothing"),
        ("namespace/nowhere", "there is no namespace 'nowhere'; correct the name"),
    ],
)
def test_what_is_not_there_is_refused(cluster: User, explained: Any, what: str, says: str) -> None:
    answer = explained(what)
    assert answer.status == 2
    assert says in answer.err


def test_without_rights_a_card_is_told_with_notes(cluster: User, explained: Any) -> None:
    cluster.denied = {("list", DEVICE_TAINT_RULES, ""), ("get", NODES, "")}
    answer = explained("card/g/gpu-0")
    assert answer.status == 0
    assert len(answer.json["notes"]) == 2
    cluster.denied = {("list", RESOURCE_CLAIMS, "")}
    assert "you may not list resourceclaims" in explained("card/g/gpu-0").err


# Namespaces


def test_a_namespace_has_what_it_holds_and_who_waits(cluster: User, explained: Any) -> None:
    hold(cluster, "c", "g/gpu-1", add(cluster, pod("p", "c")))
    add(cluster, claim("d"))
    add(cluster, pod("q", "d", schedulingGates=GATE), conditions=[said("QuotaExceeded", "asked 15Gi, limit 16Gi")])
    cluster.api.create(
        RESOURCE_QUOTAS,
        {"metadata": {"name": "cards", "namespace": "default"}, "spec": {"hard": {"lode.dev/memory": "16Gi"}}},
    )
    answer = explained("namespace/default")
    assert answer.status == 1
    assert {name: answer.json[name] for name in ("kind", "name", "cards", "memory", "memoryLimit", "overQuota")} == {
        "kind": "Namespace",
        "name": "default",
        "cards": 1.0,
        "memory": "15Gi",
        "memoryLimit": "16Gi",
        "overQuota": 1,
    }
    (held,), (waits,) = answer.json["held"], answer.json["waiting"]
    assert (held["card"], held["claim"], held["usedBy"]) == ("g/gpu-1", "c", ["p"])
    assert (waits["pod"], waits["reason"]) == ("q", "QuotaExceeded")
    shown = explained("ns/default", output="table").out
    assert shown.startswith("Namespace default holds 1 card (15Gi, 100 cores), and 1 of its pods waits for devices.")
    assert "Its quotas cards allow 16Gi of memory." in shown
    assert "asked 15Gi, limit 16Gi" in shown


def test_a_namespace_with_nothing_says_so(cluster: User, explained: Any) -> None:
    answer = explained("namespace/default", output="table")
    assert (answer.status, answer.out) == (0, "Namespace default holds no devices, and no pod of it waits.\n")


def test_a_long_message_is_cut_in_the_table_only(cluster: User, explained: Any) -> None:
    add(cluster, claim("d"))
    add(cluster, pod("q", "d", schedulingGates=GATE), conditions=[said("Unallocatable", "x" * 300)])
    assert "x" * 97 + "...\n" in explained("namespace/default", output="table").out
    assert explained("namespace/default").json["waiting"][0]["message"] == "x" * 300


def test_a_user_of_one_namespace_is_told_what_is_not_known(cluster: User, explained: Any) -> None:
    cluster.api.create(NODES, node("h"))
    cluster.denied = {("get", NAMESPACES, ""), ("list", RESOURCE_QUOTAS, "default")}
    answer = explained("namespace/default")
    assert answer.status == 0
    assert [note.partition(":")[0] for note in answer.json["notes"]] == [
        "you may not get namespaces in the whole cluster",
        "you may not list resourcequotas in namespace default",
    ]
