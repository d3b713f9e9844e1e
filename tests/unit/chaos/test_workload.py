"""The pods of a run are drawn from its seed alone, whatever the cluster has."""

from typing import Any

from tests.chaos.workload import (
    ADOPTED,
    ANY_CARD,
    CHAOS,
    TEMPLATES,
    WITHOUT_NICS,
    Flavour,
    Wanted,
    Workload,
    step,
    templates,
)
from tests.e2e.client import names

TURNS = 300


def present(*wanted: Wanted, **status: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The pods as the API has them."""
    return {(it.namespace, name): {"metadata": {"name": name}, "status": status} for it in wanted for name in it.pods}


def test_every_flavour_is_there_from_the_beginning_and_comes_again_and_again() -> None:
    workload = Workload(1)
    assert {it.flavour for it in workload.standing(0)} == set(WITHOUT_NICS)
    for half in (range(1, TURNS // 2), range(TURNS // 2, TURNS)):
        assert {it.flavour for turn in half for it in workload.made(turn)} == set(WITHOUT_NICS)


def test_what_stands_follows_from_the_seed_and_the_turn_alone() -> None:
    backwards = {turn: Workload(7).standing(turn) for turn in reversed(range(TURNS))}
    workload = Workload(7)
    assert all(workload.standing(turn) == backwards[turn] for turn in range(TURNS))
    assert workload.standing(100) != Workload(8).standing(100)


def test_pods_come_and_go_and_their_number_stays_bounded() -> None:
    workload = Workload(2)
    standing = [{name for it in workload.standing(turn) for name in it.pods} for turn in range(TURNS)]
    assert all(standing[turn] - standing[turn + 10] for turn in range(TURNS - 10))
    assert all(standing[turn + 10] - standing[turn] for turn in range(TURNS - 10))
    assert max(map(len, standing)) < 60


def test_no_name_is_used_twice() -> None:
    workload = Workload(3)
    made = [name for turn in range(TURNS) for it in workload.made(turn) for name in it.pods]
    assert len(made) == len(set(made))


def test_a_pod_names_a_template_that_exists() -> None:
    known = {*names(list(templates())), *TEMPLATES}
    for wanted in Workload(4).standing(0):
        objects = list(wanted.objects(wanted.pods))
        own = {it["metadata"]["name"] for it in objects if it["kind"] == "ResourceClaimTemplate"}
        pods = [it for it in objects if it["kind"] == "Pod"]
        assert names(pods) == list(wanted.pods)
        used = {it["resourceClaimTemplateName"] for made in pods for it in made["spec"]["resourceClaims"]}
        assert used <= known | own
        if wanted.flavour in (Flavour.ADOPTED, Flavour.ADOPTED_NPU):
            assert not used
            assert all(made["spec"]["containers"][0]["resources"]["limits"] for made in pods)
        else:
            assert used


def test_a_gang_has_a_template_and_several_members() -> None:
    gang = Wanted("gang-1-0", Flavour.GANG, 0, 5, 3)
    template, *members = gang.objects(gang.pods)
    config = template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert config["gang"] == {"name": "gang-1-0", "minAvailable": 3}
    assert names(members) == ["gang-1-0-0", "gang-1-0-1", "gang-1-0-2"]
    assert ANY_CARD in names(list(templates()))


ONE, OLD = Wanted("one", Flavour.WHOLE, 0, 5), Wanted("old", Flavour.ADOPTED, 0, 5)
GANG = Wanted("gang", Flavour.GANG, 0, 5, 2)


def test_what_is_missing_is_made_in_its_namespace() -> None:
    todo = step([ONE, OLD], {})
    assert {space: names(objects) for space, objects in todo.made.items()} == {CHAOS: ["one"], ADOPTED: ["old"]}
    assert not todo.deleted


def test_of_a_gang_only_the_member_that_was_lost_is_made_again() -> None:
    there = present(GANG)
    del there[CHAOS, "gang-1"]
    assert names(step([GANG], there).made[CHAOS]) == ["gang", "gang-1"]


def test_what_a_snapshot_brought_back_is_deleted_once() -> None:
    there = present(ONE, OLD)
    assert step([ONE], there).deleted == {ADOPTED: ["old"]}
    there[ADOPTED, "old"]["metadata"]["deletionTimestamp"] = "now"
    assert not step([ONE], there).deleted


def test_a_pod_that_has_failed_is_replaced() -> None:
    assert step([ONE], present(ONE, phase="Failed")).deleted == {CHAOS: ["one"]}
    assert not step([ONE], present(ONE, phase="Running")).deleted
    assert names(step([ONE], {}).made[CHAOS]) == ["one"]
