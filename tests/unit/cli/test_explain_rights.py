"""``lode explain`` and ``lode simulate`` of a live cluster for users who may not read everything."""

import json
from typing import Any

import pytest

from cli.__main__ import main as lode
from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from tests.unit.cli.cluster import Answer, claim, pod
from tests.unit.cli.user import User, pending

UNCOUNTED = "what pods of other namespaces take on the nodes is not counted"


def test_without_the_right_to_get_it_nothing_is_known(cluster: User, explained: Any) -> None:
    cluster.denied = {("get", PODS, "default")}
    answer = explained("pod/p")
    assert answer.status == 2
    assert "you may not get pods in namespace default. Have an administrator grant this" in answer.err


@pytest.mark.parametrize(
    ("denied", "note"),
    [
        (
            {("list", NODES, "")},
            "you may not list nodes in the whole cluster: nodes that ResourceSlices name are assumed to be ready and "
            "to have room",
        ),
        (
            {("list", PODS, "")},
            f"you may not list pods in the whole cluster: {UNCOUNTED}",
        ),
        (
            {("list", PODS, ""), ("list", PODS, "default")},
            f"you may not list pods in the whole cluster: {UNCOUNTED}",
        ),
        (
            {("list", RESOURCE_CLAIMS, "")},
            "you may not list resourceclaims of API group resource.k8s.io in the whole cluster: devices that claims of "
            "other namespaces hold look free",
        ),
        (
            {("list", PERSISTENT_VOLUMES, "")},
            "you may not list persistentvolumes in the whole cluster: volumes exclude no node",
        ),
        (
            {("list", NAMESPACES, "")},
            "you may not list namespaces in the whole cluster: terms of pod affinity that select namespaces by labels "
            "are taken to select none",
        ),
    ],
)
def test_a_missing_right_is_named_with_what_it_means(
    cluster: User, explained: Any, denied: set[tuple[str, Resource, str]], note: str
) -> None:
    pending(cluster)
    cluster.denied = denied
    answer = explained("pod/p")
    assert (answer.status, answer.json["result"]) == (0, "placed")
    assert note in answer.json["notes"]


def test_without_slices_and_classes_there_is_only_what_the_controller_said(cluster: User, explained: Any) -> None:
    pending(cluster)
    cluster.denied = {("list", RESOURCE_SLICES, ""), ("list", DEVICE_CLASSES, "")}
    answer = explained("pod/p")
    assert answer.status == 2
    assert "list resourceslices" in answer.err
    assert "list deviceclasses" in answer.err
    said = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": "no room"}
    made = cluster.api.get(PODS, "p", "default")
    conditions = [{**said, "lastTransitionTime": "2027-01-15T07:00:00Z"}]
    cluster.api.update(PODS, {**made, "status": {**made["status"], "conditions": conditions}}, "status")
    answer = explained("pod/p")
    assert (answer.status, answer.json["message"]) == (1, "no room")
    assert "only what the controller said" in answer.json["notes"][0]


# lode simulate --live


def live_simulation(capsys: pytest.CaptureFixture[str], *argv: str) -> Answer:
    status = lode(["simulate", "--live", "-o", "json", *argv])
    shown = capsys.readouterr()
    return Answer(status, shown.out, shown.err)


def test_objects_come_on_top_of_what_is_live(cluster: User, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    pending(cluster)
    (tmp_path / "new.json").write_text(
        "\n".join(map(json.dumps, (claim("d"), pod("q", "d"), claim("e"), pod("p", "e"))))
    )
    answer = live_simulation(capsys, "-f", str(tmp_path / "new.json"))
    assert answer.placed() == {"p": ["g/lode.dev/gpu-0"], "q": ["g/lode.dev/gpu-1"], "e": []}
    assert any("Pod default/p is in the cluster already" in note for note in answer.json["notes"])
    assert not cluster.api.get(RESOURCE_CLAIMS, "c", "default")["status"], "nothing is written"


def test_all_missing_rights_are_told_at_once(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.denied = {("list", NODES, ""), ("list", RESOURCE_CLAIMS, "")}
    answer = live_simulation(capsys)
    assert answer.status == 2
    assert "list nodes in the whole cluster; you may not list resourceclaims of API group resource.k8s.io" in answer.err


def test_a_cluster_without_nodes_has_none(cluster: User, capsys: pytest.CaptureFixture[str]) -> None:
    pending(cluster)
    cluster.api.delete(NODES, "g")
    assert live_simulation(capsys).reason("p")[0] == "Unallocatable"
