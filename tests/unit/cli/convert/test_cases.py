"""Every case of tests/data/adoption through ``lode convert``, judged by what ``lode simulate`` gives the result."""

from collections import Counter
from typing import Any

import pytest
import yaml

from tests.adoption_cases import ADOPTION_CASES, AdoptionCase, claims_of, env_of, uses_of
from tests.peers import peers_file
from tests.unit.cli.convert.converted import DATA, converted, given

BY_SOURCE = {"ascend": ["310p"]}


def cases_of(row: dict[str, Any]) -> list[AdoptionCase]:
    return [case for case in ADOPTION_CASES if case.case.startswith(row["case"])]


@pytest.mark.parametrize("row", DATA["cases"], ids=lambda row: "-".join([row["case"], *row.get("at", ())]))
def test_a_converted_pod_gets_what_its_system_gave(row: dict[str, Any]) -> None:
    (case,) = cases_of(row)
    done = converted(yaml.safe_dump(case.written(), sort_keys=False), [case.source], plain=case.classes)
    assert not done.faults
    pods = given(done.text, row.get("at") or BY_SOURCE.get(case.source, ["a100"]))
    found = pods.get("pod")
    assert (dict(found.devices) if found else {}) == row["gives"]
    for container, cards in found.cards.items() if found else ():
        assert len(set(cards)) == len(cards)
        assert cards == row.get("cards", {}).get(container, cards)


@pytest.mark.parametrize("source", ["hami", "volcano", "ascend"])
def test_templates_on_demand_give_the_same(source: str) -> None:
    """``lode simulate`` makes them as the controller does."""
    cases = [case for case in ADOPTION_CASES if case.source == source and not case.refused]
    for case in cases[::4]:
        text = yaml.safe_dump(case.written(), sort_keys=False)
        nodes = BY_SOURCE.get(source, ["a100"])
        assert given(converted(text, on_demand=True).text, nodes) == given(converted(text).text, nodes)


def test_every_case_that_is_not_refused_is_judged() -> None:
    judged = {case.case for row in DATA["cases"] for case in cases_of(row)}
    assert judged == {case.case for case in ADOPTION_CASES if not case.refused}


@pytest.mark.parametrize("case", ADOPTION_CASES, ids=str)
def test_files_and_admission_say_the_same(case: AdoptionCase) -> None:
    """With templates on demand the pod is the one that the policies make; a refusal has the field and the remedy."""
    text = yaml.safe_dump(case.written(), sort_keys=False)
    done = converted(text, [case.source], plain=case.classes, on_demand=True)
    for told, expected in ((done.faults, case.refused), ((), {}) if case.refused else (done.notes, case.warned)):
        assert len({remark.field for remark in told}) == len(expected)
        for field, remedy in expected.items():
            assert any(remark.field.startswith(field) and remedy in remark.message for remark in told), told
    if case.refused:
        assert done.text == text
    else:
        (pod,) = yaml.safe_load_all(done.text)
        assert (claims_of(pod), uses_of(pod), env_of(pod)) == (case.claims, case.uses, case.env)


@pytest.mark.parametrize("case", [case for case in ADOPTION_CASES if case.source != "plain"], ids=str)
def test_the_system_of_a_pod_is_known_by_what_it_asks_for(case: AdoptionCase) -> None:
    """HAMi's number of cards alone reads as that of NVIDIA's device plugin, which means the same."""
    text = yaml.safe_dump(case.written(), sort_keys=False)
    found, chosen = converted(text), converted(text, [case.source])
    assert (found.faults, found.text) == (chosen.faults, chosen.text)


def test_the_pods_of_a_group_get_their_devices_together() -> None:
    (case,) = [case for case in ADOPTION_CASES if case.case.startswith("V33")]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "pg"},
        "spec": {"minMember": 3},
    }
    pods = [{**case.written(), "metadata": {**case.written()["metadata"], "name": f"pod-{n}"}} for n in range(3)]
    done = converted(yaml.safe_dump_all([group, *pods]))
    assert {name: dict(it.devices) for name, it in given(done.text, ["a100"]).items()} == {
        f"pod-{number}": {"main": ["A100 1Gi"]} for number in range(3)
    }
    short = given(converted(yaml.safe_dump_all([group, *pods[:2]])).text, ["a100"])
    assert [dict(it.devices) for it in short.values()] == [{"main": []}] * 2


@pytest.mark.parametrize(
    ("nodes", "cards", "used"),
    [
        ("spread", "binpack", [1, 1]),
        ("spread", "spread", [2, 2]),
        ("binpack", "binpack", [1]),
        ("binpack", "spread", [4]),
    ],
)
def test_hamis_policies_of_nodes_and_of_cards_are_kept_apart(nodes: str, cards: str, used: list[int]) -> None:
    """Four pods on two nodes with four cards: how many cards they use on each."""
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    annotations = {"hami.io/node-scheduler-policy": nodes, "hami.io/gpu-scheduler-policy": cards}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "annotations": annotations},
            "spec": {"containers": [container]},
        }
        for number in range(4)
    ]
    found = given(converted(yaml.safe_dump_all(pods)).text, ["a100", "a100b"])
    where = {(one.nodes["main"][0], one.cards["main"][0]) for one in found.values()}
    assert sorted(Counter(node for node, _ in where).values()) == used


GIVEN_BY_PEERS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "nvidia-device-plugin/job-1.yaml": ("a100", {"cuda-container": ["A100 all"]}),
    "hami-nvidia/default_use.yaml": ("a100", {"ubuntu-container": ["A100 3000Mi 30c"]}),
    "hami-nvidia/example.yaml": ("a100", {"cuda-sample-vector-add": ["A100 3000Mi"]}),
    "hami-nvidia/use_exclusive_card.yaml": ("a100", {"ubuntu-container": ["A100 all", "A100 all"]}),
    "hami-nvidia/use_as_normal.yaml": ("a100", {"ubuntu-container": ["A100 all"]}),
    "hami-nvidia/specify_card_type_to_use.yaml": ("a100", {"ubuntu-container": ["A100 all", "A100 all"]}),
    "hami-nvidia/specify_card_type_not_use.yaml": ("a100", {"ubuntu-container": ["A100 all", "A100 all"]}),
    "hami-nvidia/specify_uuid_not_use.yaml": ("a100", {"ubuntu-container": ["A100 all", "A100 all"]}),
    "hami-nvidia/mig_example.yaml": ("a100", {"ubuntu-container": ["A100 3g.20gb"]}),
    "hami-ascend/job-310P.yaml": ("310p", {"ubuntu-container": ["310P vir01"]}),
    "hami-ascend/job-910B3.yaml": ("910b3", {"ubuntu-container": ["910B vir05_1c_16g"]}),
    "volcano-deviceshare/gpu-share.yml": ("a100", {"pod1-ctr": ["A100 1Gi"]}),
    "volcano-vgpu/vgpu-case01.yml": ("a100", {"pod1-ctr": ["A100 1Gi"]}),
    "volcano-vgpu/vgpu-deployment.yaml": ("a100", {"resnet101-container": ["A100 16Gi"]}),
    "ascend/ascendjob-310p.yaml": ("310p", {"ubuntu-container": ["310P vir01"]}),
}


@pytest.mark.parametrize("name", GIVEN_BY_PEERS)
def test_manifests_of_other_projects_get_what_they_asked_for(name: str) -> None:
    node, expected = GIVEN_BY_PEERS[name]
    done = converted(peers_file(name).read_text())
    assert not done.faults
    pods = given(done.text, [node])
    # Not all pods of a Deployment may have room.
    running = [dict(pod.devices) for pod in pods.values() if any(pod.devices.values())]
    assert running
    assert all(devices == expected for devices in running)


def test_two_pods_of_another_project_share_one_card_in_the_given_parts() -> None:
    pods = given(converted(peers_file("hami-nvidia/use_sharing_card.yaml").read_text()).text, ["a100"])
    assert [pod.devices["ubuntu-container"] for pod in pods.values()] == [["A100 16Gi 60c"], ["A100 24Gi 40c"]]
    assert len({card for pod in pods.values() for card in pod.cards["ubuntu-container"]}) == 1
