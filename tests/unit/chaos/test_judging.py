"""A settled cluster has nothing wrong, and each defect that is put into a reading of it is found."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from driver.settings import Settings
from kubeletplugin.prepare import checkpoint as codec
from tests.chaos.judging import Judge, Level, Patience, Problem
from tests.chaos.world import CDI, CHECKPOINT, Reading
from tests.e2e.nodes import PLUGIN
from tests.unit.chaos.simulated_reading import settled, with_node

NOW = 1_800_000_000.0
NOBODY = "00000000-1111-4222-8333-444444444444"
GATE = [{"name": "lode.dev/allocation"}]


def problems(*readings: Reading) -> dict[str, Level]:
    """What is wrong in the last of readings that one judge sees."""
    judge = Judge(Settings())
    for reading in readings:
        found = judge.problems(reading, NOW)
    return {it.text: it.level for it in found}


def changed(kind: Resource, change: Callable[[dict[str, dict[str, Any]]], None]) -> Reading:
    """The settled reading with changed objects of a kind, by name; claims by that of their pod."""
    reading = settled()
    objects = copy.deepcopy(list(reading.objects[kind]))
    change({it["metadata"]["name"].partition("-device-")[0]: it for it in objects})
    return replace(reading, objects={**reading.objects, kind: objects})


def claim(name: str) -> dict[str, Any]:
    (found,) = [it for it in settled().objects[RESOURCE_CLAIMS] if it["metadata"]["name"].startswith(f"{name}-")]
    return dict(found)


def uid(name: str) -> str:
    return str(claim(name)["metadata"]["uid"])


def container_of(name: str) -> Any:
    (node,) = settled().nodes
    (found,) = [it for it in node.containers if uid(name) in it.claims]
    return found


def with_checkpoint(change: Callable[[dict[str, Any]], None]) -> Reading:
    (node,) = settled().nodes
    claims = dict(codec.decode(node.checkpoint, CHECKPOINT).claims)
    change(claims)
    return with_node(settled(), checkpoint=codec.encode(codec.Checkpoint(claims)))


def only(found: dict[str, Level], level: Level, *words: str) -> None:
    """There is one problem with these words, of that level."""
    (text,) = [text for text in found if all(word in text for word in words)]
    assert found[text] == level, text


def test_nothing_is_wrong_in_a_settled_cluster() -> None:
    assert not problems(settled())
    assert not problems(settled(), settled())


def test_a_device_that_is_allocated_to_two_claims() -> None:
    def twice(claims: dict[str, Any]) -> None:
        claims["other"]["status"]["allocation"] = claims["one"]["status"]["allocation"]

    only(problems(changed(RESOURCE_CLAIMS, twice)), Level.NEVER, "gpu-0 is exclusive, held by", "/one-", "/other-")


def test_a_device_of_another_driver_that_is_allocated_to_two_claims() -> None:
    driver, pool = "gpu.example.com", {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    published = {"driver": driver, "pool": pool, "nodeName": "n1", "devices": [{"name": "gpu-0"}]}
    result = {"request": "r", "driver": driver, "pool": "n1", "device": "gpu-0"}

    def theirs(claims: dict[str, Any]) -> None:
        for name in ("one", "other"):
            claims[name]["status"]["allocation"]["devices"]["results"].append(result)

    reading = changed(RESOURCE_CLAIMS, theirs)
    slices = [*reading.objects[RESOURCE_SLICES], {"metadata": {"name": "theirs"}, "spec": published}]
    beside = replace(reading, objects={**reading.objects, RESOURCE_SLICES: slices})
    found = [it.text for it in Judge(Settings(), (driver,)).problems(beside, NOW)]
    assert [text for text in found if text.startswith("held or allocated:") and driver in text and uid("one") in text]


def test_a_device_in_the_hands_of_two_containers() -> None:
    def prepared_as_the_other(claims: dict[str, Any]) -> None:
        plan = replace(claims[uid("other")].plan, results=claims[uid("one")].plan.results)
        claims[uid("other")] = replace(claims[uid("other")], plan=plan)

    found = problems(with_checkpoint(prepared_as_the_other))
    only(found, Level.NEVER, "on node n1:", "gpu-0 is exclusive, held by containers of")
    only(found, Level.NEVER, "prepared on n1:", "gpu-0 is exclusive", uid("one"), uid("other"))


def test_a_device_that_a_container_holds_is_allocated_again_after_a_restore() -> None:
    reading = settled()
    lost = [it for it in reading.objects[RESOURCE_CLAIMS] if it["metadata"]["uid"] != uid("one")]
    again = copy.deepcopy(claim("other"))
    again["metadata"]["uid"], again["metadata"]["name"] = NOBODY, "again-x"
    again["status"]["allocation"] = claim("one")["status"]["allocation"]
    found = problems(reading, replace(reading, objects={**reading.objects, RESOURCE_CLAIMS: [*lost, again]}))
    only(found, Level.FOR_A_WHILE, "held or allocated:", "gpu-0 is exclusive", uid("one"), NOBODY)


def test_a_container_that_sees_another_device_than_its_claim_has() -> None:
    (node,) = settled().nodes
    strayed = replace(container_of("one"), devices=frozenset({"gpu-5"}))
    containers = [it for it in node.containers if it is not container_of("one")]
    found = problems(with_node(settled(), containers=[*containers, strayed]))
    only(found, Level.NEVER, "see ['gpu-5'], their claims have ['gpu-0']")


def test_a_card_of_a_device_plugin_that_two_claims_have() -> None:
    (node,) = settled().nodes
    containers = [replace(it, bridged=frozenset({"card0"})) for it in node.containers[:2]]
    found = problems(with_node(settled(), containers=[*containers, *node.containers[2:]]))
    only(found, Level.NEVER, "card0 of a device plugin is with")


def test_two_containers_of_one_claim_may_have_its_card() -> None:
    (node,) = settled().nodes
    assert not problems(with_node(settled(), containers=[*node.containers, container_of("one")]))


def test_a_claim_that_containers_have_and_the_plugin_has_forgotten() -> None:
    found = problems(with_checkpoint(lambda claims: claims.pop(uid("one"))))
    only(found, Level.NEVER, uid("one"), "which the plugin does not know")
    only(found, Level.FOR_A_WHILE, f"{CDI}/lode.dev-claim_{uid('one')}.json is left")


def test_a_claim_that_is_prepared_for_nobody() -> None:
    (node,) = settled().nodes
    containers = [it for it in node.containers if it is not container_of("one")]
    found = problems(with_node(settled(), containers=containers))
    only(found, Level.FOR_A_WHILE, f"n1: claim {uid('one')} is prepared, but no container has it")


@pytest.mark.parametrize("state", ["started", "stopping"])
def test_a_claim_that_is_prepared_by_half(state: str) -> None:
    def halved(claims: dict[str, Any]) -> None:
        claims[uid("one")] = replace(claims[uid("one")], state=state)

    only(problems(with_checkpoint(halved)), Level.FOR_A_WHILE, f"claim {uid('one')} is {state}")


@pytest.mark.parametrize(
    "file",
    [
        f"{CDI}/lode.dev-claim_{NOBODY}.json",
        f"{PLUGIN}/dra-device-metadata/{NOBODY}_card.json",
        f"{PLUGIN}/.checkpoint.json-x.tmp",
    ],
)
def test_a_file_that_is_left(file: str) -> None:
    (node,) = settled().nodes
    only(problems(with_node(settled(), files=[*node.files, file])), Level.FOR_A_WHILE, f"file {file} is left")


def test_files_of_others_do_not_count() -> None:
    (node,) = settled().nodes
    others = [f"{CDI}/k8s.gpu.example.com-gpu_x.json", f"{PLUGIN}/health.json"]
    assert not problems(with_node(settled(), files=[*node.files, *others]))


def test_a_partition_that_no_claim_has() -> None:
    (node,) = settled().nodes
    existing = [*json.loads(node.hardware)["existing"]]
    stray = copy.deepcopy(next(it for it in existing if it["action"]["kind"] == "mig"))
    stray["action"]["start"] = 0
    found = problems(with_node(settled(), hardware=json.dumps({"existing": [*existing, stray]})))
    only(found, Level.FOR_A_WHILE, "is on a card, but no claim has it")


def test_a_damaged_checkpoint() -> None:
    (node,) = settled().nodes
    found = problems(with_node(settled(), checkpoint=node.checkpoint[:-10]))
    only(found, Level.FOR_A_WHILE, "n1: the checkpoint cannot be read")


def test_an_allocation_without_a_user() -> None:
    def unreserved(claims: dict[str, Any]) -> None:
        del claims["one"]["status"]["reservedFor"]

    found = problems(changed(RESOURCE_CLAIMS, unreserved))
    only(found, Level.FOR_A_WHILE, "/one-", "is allocated, but not reserved for any pod that still runs")


def test_a_pod_that_waits_although_there_is_a_place() -> None:
    reading = settled()
    waiting = copy.deepcopy(next(it for it in reading.objects[PODS] if it["metadata"]["name"] == "one"))
    entry = waiting["spec"]["resourceClaims"][0]["name"]
    waiting["metadata"] |= {"name": "late", "uid": NOBODY}
    del waiting["spec"]["nodeName"]
    waiting["spec"]["schedulingGates"] = GATE
    waiting["status"] = {"phase": "Pending", "resourceClaimStatuses": [{"name": entry, "resourceClaimName": "late-x"}]}
    unallocated = copy.deepcopy(claim("one"))
    unallocated["metadata"] |= {"name": "late-x", "uid": f"{NOBODY[:-1]}5", "finalizers": []}
    unallocated["metadata"]["ownerReferences"][0] |= {"name": "late", "uid": NOBODY}
    unallocated["status"] = {}
    objects = {
        **reading.objects,
        PODS: [*reading.objects[PODS], waiting],
        RESOURCE_CLAIMS: [*reading.objects[RESOURCE_CLAIMS], unallocated],
    }
    found = problems(replace(reading, objects=objects))
    only(found, Level.FOR_A_WHILE, "late waits, but could go")
    full = copy.deepcopy(objects)
    full[NODES][0]["spec"] = {"unschedulable": True}
    assert not problems(replace(reading, objects=full))


def test_claims_and_templates_that_are_left() -> None:
    def deleting(claims: dict[str, Any]) -> None:
        claims["one"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    only(problems(changed(RESOURCE_CLAIMS, deleting)), Level.FOR_A_WHILE, "/one-", "is still being deleted")

    def on_demand(templates: dict[str, Any]) -> None:
        for template in templates.values():
            template["metadata"]["labels"] = {"lode.dev/on-demand": ""}

    found = problems(changed(RESOURCE_CLAIM_TEMPLATES, on_demand))
    only(found, Level.FOR_A_WHILE, "/npu-1 was made on demand, but no pod names it")
    assert not [text for text in found if "/gpu-1 " in text]


def test_a_pod_that_has_its_devices_and_its_gate() -> None:
    def gated(pods: dict[str, Any]) -> None:
        pods["one"]["spec"] |= {"schedulingGates": GATE}
        del pods["one"]["spec"]["nodeName"]
        pods["one"]["status"]["phase"] = "Pending"

    only(problems(changed(PODS, gated)), Level.FOR_A_WHILE, "/one waits, but could go")


def test_pods_that_do_not_go_on() -> None:
    def stuck(pods: dict[str, Any]) -> None:
        pods["one"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pods["other"]["status"]["phase"] = "Pending"
        pods["share"]["status"]["conditions"] = []

    found = problems(changed(PODS, stuck))
    only(found, Level.FOR_A_WHILE, "/one is still being deleted")
    only(found, Level.FOR_A_WHILE, "/other is bound to n1 and has devices, but does not run")
    only(found, Level.FOR_A_WHILE, "/share runs, but is not ready")


@pytest.mark.parametrize(
    ("lacking", "is_ours"), [("k8s.gpu.example.com/gpu=1-gpu-0", False), ("lode.dev/claim=1-gpu-0", True)]
)
def test_only_our_cdi_specs_have_to_be_there_again_after_a_restart_of_the_node(lacking: str, is_ours: bool) -> None:
    def stuck(pods: dict[str, Any]) -> None:
        waiting = {"waiting": {"message": f"CDI device injection failed: unresolvable CDI devices {lacking}"}}
        pods["share"]["status"] |= {"conditions": [], "containerStatuses": [{"name": "main", "state": waiting}]}

    reading = changed(PODS, stuck)
    uid = next(pod["metadata"]["uid"] for pod in reading.objects[PODS] if pod["metadata"]["name"] == "share")
    nodes = [replace(it, containers=[one for one in it.containers if one.pod != uid]) for it in reading.nodes]
    found = problems(replace(reading, nodes=nodes))
    assert any("/share runs, but is not ready" in text for text in found) == is_ours
    assert any("is prepared, but no container has it" in text for text in found) == is_ours


def test_nodes_and_slices_that_are_missing() -> None:
    def gone(nodes: dict[str, Any]) -> None:
        nodes["n1"]["status"]["conditions"] = []

    only(problems(changed(NODES, gone)), Level.FOR_A_WHILE, "node n1 is not ready")
    only(problems(replace(settled(), nodes=())), Level.FOR_A_WHILE, "node n1 does not answer")
    empty = replace(settled(), objects={**settled().objects, RESOURCE_SLICES: ()})
    found = problems(settled(), empty)
    only(found, Level.FOR_A_WHILE, "pool of node n1: 0 slices")
    assert not [text for text in found if "never published" in text]


NEVER, LATE = Problem(Level.NEVER, "twice"), Problem(Level.FOR_A_WHILE, "left")


def test_what_must_never_be_counts_in_the_second_of_two_readings_and_is_told_once() -> None:
    patience = Patience(bound=60)
    assert patience.look([NEVER], 0) == []
    assert patience.look([], 1) == []
    assert patience.look([NEVER], 2) == []
    assert patience.look([NEVER], 3) == ["twice"]
    assert patience.look([NEVER], 4) == []


def test_what_may_be_for_a_while_counts_after_the_bound() -> None:
    patience = Patience(bound=60)
    assert patience.look([LATE], 0) == []
    assert patience.look([LATE], 59) == []
    assert patience.unresolved() == ["left"]
    assert patience.look([LATE], 60) == ["left"]
    assert patience.unresolved() == []


def test_the_bound_begins_anew_when_the_problem_was_gone_or_a_fault_has_ended() -> None:
    patience = Patience(bound=60)
    patience.look([LATE], 0)
    patience.look([], 30)
    assert patience.look([LATE], 65) == []
    patience.calm()
    assert patience.look([LATE], 130) == []
    assert patience.look([LATE], 190) == ["left"]


def test_what_was_mended_and_is_wrong_again_is_told_again() -> None:
    patience = Patience(bound=0)
    assert [patience.look([LATE], 0), patience.look([LATE], 1), patience.look([], 2)] == [["left"], [], []]
    assert patience.look([LATE], 3) == ["left"]
