"""The terms of a gang follow from what its members say. What they contradict each other in is said to all of them."""

from typing import Any

import pytest

from controller.gangs import Level, ValueConstraint
from controller.membership import GangTerms, MemberTerms, Source, SubGroupPolicy, agreed
from driver.errors import Fault
from driver.label_selectors import label_selector_from
from driver.parameters import PlacementPolicy

RACK = Level("rack", "nodeLabel")


def says(**said: Any) -> MemberTerms:
    return MemberTerms(**{"source": Source.CLAIM, "minimum": 2, **said})


def test_what_one_member_does_not_say_the_others_say() -> None:
    said = {says(minimum=None): ["ns/a"], says(levels=(RACK,)): ["ns/b"], says(size=4, uid="u"): ["ns/c", "ns/d"]}
    assert agreed("ns/g", said) == GangTerms("ns/g", "u", Source.CLAIM, minimum=2, size=4, levels=(RACK,))


def test_without_a_minimum_all_members_start_together() -> None:
    assert agreed("ns/g", {says(minimum=None, size=4): ["ns/a"]}) == GangTerms("ns/g", "ns/g", Source.CLAIM, 4, 4)


@pytest.mark.parametrize(
    ("one", "other", "field", "values"),
    [
        ({"minimum": 2}, {"minimum": 3}, "gang.minAvailable", ("2 (pod ns/a)", "3 (pod ns/b)")),
        ({"size": 3}, {"size": 4}, "members", ("3 (pod ns/a)", "4 (pod ns/b)")),
        ({}, {"source": Source.KUEUE}, "gang", ("PlacementConfig of a claim (pod ns/a)", "Kueue (pod ns/b)")),
        ({"uid": "u"}, {"uid": "v"}, "owner", ("u (pod ns/a)", "v (pod ns/b)")),
        ({"moves": True}, {"moves": False}, "gang.onDomainLoss", ("move (pod ns/a)", "wait (pod ns/b)")),
        (
            {"constraints": (ValueConstraint("lode.dev/rail", "sameSet"),)},
            {"constraints": (ValueConstraint("lode.dev/type", "same", required=False),)},
            "gang.constraints",
            ("required sameSet lode.dev/rail (pod ns/a)", "preferred same lode.dev/type (pod ns/b)"),
        ),
        (
            {"levels": (RACK,)},
            {"levels": (Level("lode.dev/ibLeaf", "attribute", False, 4, 60),)},
            "topology",
            ("required rack (pod ns/a)", "preferred lode.dev/ibLeaf in groups of 4 after 60 s (pod ns/b)"),
        ),
    ],
)
def test_a_contradiction_names_the_pods_and_their_values(
    one: Any, other: Any, field: str, values: tuple[str, str]
) -> None:
    faults = agreed("ns/g", {says(**one): ["ns/a"], says(**other): ["ns/b"]})
    assert isinstance(faults, tuple)
    assert [fault.field for fault in faults] == [field]
    for value in values:
        assert value in faults[0].message
    assert "let all say the same" in faults[0].message


def test_a_contradiction_of_many_pods_names_a_few() -> None:
    faults = agreed("ns/g", {says(): [f"ns/{number}" for number in range(9)], says(minimum=3): ["ns/x"]})
    assert isinstance(faults, tuple)
    assert "2 (pod ns/0, ns/1, ns/2 and 6 more); 3 (pod ns/x)" in faults[0].message


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ([None, None], "binpack"),
        ([None, "spread"], "spread"),
        (["spread", "binpack"], "binpack"),
    ],
)
def test_the_policy_is_that_of_the_members_that_have_one(
    said: list[PlacementPolicy | None], policy: PlacementPolicy
) -> None:
    terms = agreed("ns/g", {says(policy=one): [f"ns/{number}"] for number, one in enumerate(said)})
    assert isinstance(terms, GangTerms)
    assert terms.policy is policy


def test_a_minimum_that_can_never_be_reached_is_a_fault() -> None:
    faults = agreed("ns/g", {says(minimum=5, size=4): ["ns/a"]})
    assert faults == (
        Fault("gang.minAvailable", "5 is more than the 4 members that there will be; lower it, or add members"),
    )


def test_a_gang_of_which_nothing_says_how_many_it_has_is_a_fault() -> None:
    faults = agreed("ns/g", {says(minimum=None, origin="MPIJob train"): ["ns/a"]})
    assert isinstance(faults, tuple)
    fault = faults[0]
    assert fault.field == "gang.minAvailable"
    assert "nothing says how many members the gang has (MPIJob train)" in fault.message


def test_one_member_that_says_a_minimum_says_it_for_all() -> None:
    unsized = Fault("gang.minAvailable", "RayCluster ray does not say how many pods it makes")
    silent = says(minimum=None, needs_minimum=(unsized,))
    assert agreed("ns/g", {silent: ["ns/head"]}) == (unsized,)
    terms = agreed("ns/g", {silent: ["ns/head"], says(minimum=3, needs_minimum=(unsized,)): ["ns/worker"]})
    assert isinstance(terms, GangTerms)
    assert terms.minimum == 3


def test_a_size_that_is_not_known_yet_is_awaited_unless_a_member_says_a_minimum() -> None:
    silent = says(minimum=None, awaited="1 of 2 Jobs exist")
    terms = agreed("ns/g", {silent: ["ns/a"]})
    assert isinstance(terms, GangTerms)
    assert terms.awaited == "1 of 2 Jobs exist"
    terms = agreed("ns/g", {silent: ["ns/a"], says(minimum=2): ["ns/b"]})
    assert isinstance(terms, GangTerms)
    assert terms.awaited == ""


def test_what_is_wrong_with_one_member_is_wrong_with_the_gang_and_is_said_once() -> None:
    fault = Fault("gang", "PodGroup ns/g does not exist")
    said = {says(problems=(fault,)): ["ns/a"], says(problems=(fault,), levels=(RACK,)): ["ns/b"]}
    assert agreed("ns/g", said) == (fault,)


def faults_of(said: Any) -> list[str]:
    found = agreed("ns/g", said)
    assert isinstance(found, tuple)
    return [str(fault) for fault in found]


BY_REPLICA = SubGroupPolicy(("replica",), 4, 2)


def test_a_minimum_of_sub_groups_is_one_of_members() -> None:
    for said, least in ((None, 8), (6, 8), (9, 9)):
        terms = agreed("ns/g", {says(minimum=said, sub_groups=(BY_REPLICA,)): ["ns/a"]})
        assert isinstance(terms, GangTerms)
        assert (terms.minimum, terms.sub_groups) == (least, (BY_REPLICA,))


def test_more_members_in_sub_groups_than_there_will_be_are_a_fault() -> None:
    said = {says(minimum=None, size=7, sub_groups=(BY_REPLICA,)): ["ns/a"]}
    assert faults_of(said) == [
        "gang.subGroup: 8 is more than the 7 members that there will be; lower it, or add members"
    ]


def test_sub_groups_contradict_each_other_and_a_level_for_each_needs_some() -> None:
    (one, other), level = (SubGroupPolicy((key,), 4, 2) for key in "ab"), Level("rack", "nodeLabel", per_sub_group=True)
    said = {says(sub_groups=(one,)): ["ns/a"], says(sub_groups=(other,)): ["ns/b"]}
    values = "2 of 4 by a (pod ns/a); 2 of 4 by b (pod ns/b)"
    assert faults_of(said) == [f"gang.subGroup: members contradict each other: {values}; let all say the same"]
    kinds = [SubGroupPolicy(("r",), 4, 2, label_selector_from({"matchLabels": {"role": role}})) for role in "xy"]
    said = {says(sub_groups=(kind,)): [f"ns/{pod}"] for kind, pod in zip(kinds, "ab", strict=True)}
    values = "2 of 4 by r where role In x (pod ns/a); 2 of 4 by r where role In y (pod ns/b)"
    assert faults_of(said) == [f"gang.subGroup: members contradict each other: {values}; let all say the same"]
    remedy = "say gang.subGroup or gang.subGroups in a claim, or leave it out"
    assert faults_of({says(levels=(level,)): ["ns/a"]}) == [f"topology: rack: perSubGroup without sub-groups; {remedy}"]


def test_a_level_for_each_sub_group_is_one_for_each_group_of_a_gang_of_groups() -> None:
    zone, rack, host = (Level(key, "nodeLabel", per_sub_group=key == "rack") for key in ("zone", "rack", "host"))
    terms = agreed("ns/g", {says(levels=(zone, rack, host), groups=("a", "b")): ["ns/x"]})
    assert isinstance(terms, GangTerms)
    each = {("a", "a"), ("b", "b")}
    assert [(level.key, set(level.task_groups)) for level in terms.levels] == [
        ("zone", set()),
        ("rack", each),
        ("host", each),
    ]
    assert not any(level.per_sub_group for level in terms.levels)
    kept = agreed("ns/g", {says(levels=(zone, rack), groups=("a",), sub_groups=(BY_REPLICA,)): ["ns/x"]})
    assert isinstance(kept, GangTerms)
    assert kept.levels == (zone, rack), "sub-groups that a claim says come first"
    said = {says(levels=(rack, Level("host", "nodeLabel", group_size=2)), groups=("a",)): ["ns/x"]}
    assert faults_of(said) == [
        "topology: host: groupSize inside perSubGroup is not supported in a gang of groups; leave it out"
    ]
