"""PodGroups under CompositePodGroups are one gang: which one, what it needs, and what stays together."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import Level
from controller.membership import Group, GroupObjects, Source, group_from
from controller.membership.nested import MOST_GROUPS, NestedGang, nested_levels
from controller.membership.terms import group_id
from driver.kube.api import COMPOSITE_POD_GROUPS, POD_GROUPS, Resource

Made = tuple[Resource, Group]
ZONE, BLOCK, RACK = (Level(key, "nodeLabel") for key in ("zone", "block", "rack"))


def made(source: Source, name: str, policy: Any, parent: str, key: str) -> Group:
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return group_from({"metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"}, "spec": spec}, source, {})


def composite(name: str, least: int | None = None, parent: str = "", key: str = "", version: int = 0) -> Made:
    policy = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    return COMPOSITE_POD_GROUPS[version], made(Source.COMPOSITE, name, policy, parent, key)


def pods(name: str, least: int | None = 1, parent: str = "", key: str = "") -> Made:
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    return POD_GROUPS[0], made(Source.POD_GROUP, name, policy, parent, key)


def known(groups: Iterable[Made]) -> GroupObjects:
    objects = GroupObjects()
    for kind, group in groups:
        objects.put_group(kind, group)
    return objects


def gang(name: str, *groups: Made) -> NestedGang:
    found = known(groups).nested_gang(f"ns/{name}")
    assert found is not None
    return found


SERVING = (
    composite("serve", 2, key="zone"),
    composite("prefill", 1, "serve", "block"),
    pods("p0", 4, "prefill", "rack"),
    pods("p1", 4, "prefill", "rack"),
    pods("decode", 2, "serve", "block"),
)


def test_all_pod_groups_of_a_tree_are_the_gang_of_its_root() -> None:
    objects = known(SERVING)
    found = [objects.nested_gang(f"ns/{name}") for name in ("p0", "p1", "decode")]
    assert [(one and one.name, one and one.uid) for one in found] == [("CompositePodGroup/serve", "uid-serve")] * 3
    assert known([pods("alone")]).nested_gang("ns/alone") is None


def test_the_gang_needs_what_the_tree_says() -> None:
    quorum = gang("p0", *SERVING).quorum
    assert quorum is not None
    assert quorum.fewest == 4 + 2
    assert quorum.is_met({"p1": 4, "decode": 2})
    assert quorum.lacking({"p0": 3, "p1": 3, "decode": 2}) == (
        "1 of 2 groups of CompositePodGroup ns/serve complete (0 of 1 groups of CompositePodGroup ns/prefill complete "
        "(3 of 4 members of PodGroup ns/p0, 3 of 4 members of PodGroup ns/p1))"
    )


def test_one_group_and_one_member_are_enough_where_the_policy_is_basic() -> None:
    quorum = gang("a", composite("all"), pods("a", None, "all"), pods("b", 3, "all")).quorum
    assert quorum is not None
    assert quorum.fewest == 1
    assert quorum.is_met({"a": 1})


def test_each_group_stays_in_one_domain_of_what_it_asks_for() -> None:
    levels = gang("p0", *SERVING).levels
    assert levels is not None
    prefill = {(name, "CompositePodGroup ns/prefill") for name in ("p0", "p1")}
    assert [(level.key, set(level.task_groups)) for level in levels] == [
        ("zone", set()),
        ("block", {*prefill, ("decode", "PodGroup ns/decode")}),
        ("rack", {("p0", "PodGroup ns/p0"), ("p1", "PodGroup ns/p1")}),
    ]


def test_a_level_that_the_group_around_asks_for_holds_anyway() -> None:
    levels = gang("a", composite("all", 1, key="rack"), pods("a", 1, "all", "rack"), pods("b", 1, "all")).levels
    assert levels == (RACK,)


Chains = dict[str, list[tuple[str, Sequence[Level]]]]
PREFERRED = Level("host", "nodeLabel", required=False)


@pytest.mark.parametrize(
    ("chains", "said"),
    [
        (
            {"a": [("A", [ZONE])], "b": [("B", [RACK])]},
            "rack, zone: nothing says which of them lies inside the other",
        ),
        (
            {"a": [("A", [ZONE]), ("x", [RACK])], "b": [("B", [RACK]), ("y", [ZONE])]},
            "rack, zone: groups name them in different orders",
        ),
        (
            {"a": [("", [ZONE, PREFERRED]), ("x", [RACK])]},
            "host, rack: nothing says which of them lies inside the other",
        ),
    ],
)
def test_levels_of_which_the_order_is_not_known_are_told(chains: Chains, said: str) -> None:
    assert nested_levels(chains) == said


@pytest.mark.parametrize(
    ("chains", "keys"),
    [
        ({}, []),
        ({"a": [("A", [])]}, []),
        ({"a": [("A", [ZONE])], "b": [("B", [])]}, ["zone"]),
        ({"a": [("", [ZONE]), ("A", [RACK])], "b": [("", [ZONE]), ("B", [BLOCK]), ("b", [RACK])]}, "zone block rack"),
        ({"a": [("", [RACK, PREFERRED]), ("A", [RACK])]}, "rack host"),
        ({"a": [("", [PREFERRED]), ("A", [Level("host", "nodeLabel")])]}, "host host"),
        ({"a": [("", [Level("host", "nodeLabel")]), ("A", [PREFERRED])]}, "host"),
    ],
)
def test_levels_are_in_the_one_order_that_all_groups_allow(chains: Chains, keys: Any) -> None:
    levels = nested_levels(chains)
    assert not isinstance(levels, str)
    assert [level.key for level in levels] == (keys.split() if isinstance(keys, str) else keys)


def test_what_a_tree_leaves_open_is_told_with_the_remedy_and_the_rest_is_known() -> None:
    found = gang("a", composite("all", 2), pods("a", 2, "all", "rack"), pods("b", 1, "all", "block"))
    assert (found.levels, found.faults) == (None, ())
    assert [str(fault) for fault in found.level_faults] == [
        "CompositePodGroup ns/all: spec.schedulingConstraints.topology: block, rack: nothing says which of them lies "
        "inside the other; let it ask for the widest of them, too, or ask for topology in the PlacementConfig of a "
        "claim"
    ]
    helped = gang("a", composite("all", 2, key="block"), pods("a", 2, "all", "rack"), pods("b", 1, "all", "block"))
    assert [level.key for level in helped.levels or ()] == ["block", "rack"]


def test_a_group_that_is_missing_is_told_to_all_that_name_it_and_to_nobody_else() -> None:
    objects = known([pods("a", 2, "all"), pods("b", 1, "all"), *SERVING])
    a, b, other = (objects.nested_gang(f"ns/{name}") for name in ("a", "b", "decode"))
    assert a == b
    assert a is not None
    assert a.name == "CompositePodGroup/all"
    assert str(a.faults[0]).startswith("CompositePodGroup ns/all: does not exist, or this program may not read it; ")
    assert other is not None
    assert other.faults == ()


def chain(length: int) -> list[Made]:
    """Groups g0 around g1 around g2 ..."""
    return [composite(f"g{number}", 1, f"g{number - 1}" if number else "") for number in range(length)]


def test_four_groups_inside_one_another_are_read_and_a_fifth_is_told() -> None:
    groups = [*chain(4), pods("deep", 1, "g3"), pods("fine", 1, "g2")]
    fine, deep = gang("fine", *groups), gang("deep", *groups)
    assert (fine.name, fine.faults) == ("CompositePodGroup/g0", ())
    assert fine.quorum is not None
    assert [*fine.quorum.tasks] == ["fine"]
    assert deep.name == "CompositePodGroup/g3"
    assert "CompositePodGroup ns/g3: has more than 3 groups inside or around it" in str(deep.faults[0])


def test_a_circle_of_groups_is_told() -> None:
    found = gang("a", composite("x", 1, "y"), composite("y", 1, "x"), pods("a", 1, "x"))
    assert found.name == "CompositePodGroup/x"
    assert "or they are in a circle" in str(found.faults[0])


def test_a_tree_with_too_many_groups_is_told_and_read_again_when_it_has_fewer() -> None:
    objects = known([composite("all", 1), *(pods(f"g{number}", 1, "all") for number in range(MOST_GROUPS))])
    found = objects.nested_gang("ns/g0")
    assert found is not None
    assert str(found.faults[0]) == "CompositePodGroup ns/all: is in a tree of more than 256 groups; make several of it"
    assert objects.put_group(*pods("more", 1, "all")) == {group_id(Source.POD_GROUP, "ns/more")}, "no others"
    objects.remove_group(POD_GROUPS[0], "ns/more")
    told = objects.remove_group(POD_GROUPS[0], "ns/g1")
    assert len(told) == MOST_GROUPS, "all of them, and the one that is gone"
    found = objects.nested_gang("ns/g0")
    assert found is not None
    assert found.faults == ()


def test_a_change_is_told_to_the_pods_of_the_whole_tree_and_of_no_other() -> None:
    objects = known([*SERVING, composite("other", 1), pods("o", 1, "other")])
    of_tree = {group_id(Source.POD_GROUP, f"ns/{name}") for name in ("p0", "p1", "decode")}
    assert objects.put_group(*pods("decode", 3, "serve", "block")) == of_tree
    assert objects.put_group(*pods("decode", 3, "serve", "block")) == ()
    assert objects.remove_group(*(COMPOSITE_POD_GROUPS[0], "ns/prefill")) == {
        *of_tree,
        group_id(Source.COMPOSITE, "ns/prefill"),
    }
    p0, decode = objects.nested_gang("ns/p0"), objects.nested_gang("ns/decode")
    assert p0 is not None
    assert decode is not None
    assert (p0.name, bool(p0.faults)) == ("CompositePodGroup/prefill", True)
    assert (decode.name, decode.faults) == ("CompositePodGroup/serve", ())


def test_the_best_version_of_a_group_counts() -> None:
    older = composite("all", 2, version=1)
    for groups in ([composite("all", 1), older], [older, composite("all", 1)]):
        quorum = gang("a", *groups, pods("a", 2, "all")).quorum
        assert quorum is not None
        assert quorum.minimum == 1
    objects = known([composite("all", 1), older, pods("a", 2, "all")])
    objects.remove_group(COMPOSITE_POD_GROUPS[0], "ns/all")
    found = objects.nested_gang("ns/a")
    assert found is not None
    assert found.quorum is not None
    assert found.quorum.minimum == 2


names, keys = st.sampled_from("abcd"), st.sampled_from(["", "", "zone", "rack"])
parents = st.sampled_from(["", "a", "b", "c", "d"])
some_composites = st.builds(composite, names, st.one_of(st.none(), st.integers(1, 2)), parents, keys)
some_pods = st.builds(pods, st.sampled_from("wxyz"), st.one_of(st.none(), st.integers(1, 3)), parents, keys)


def distinct(groups: Iterable[Made]) -> list[Made]:
    return [*{(kind, group.key): (kind, group) for kind, group in groups}.values()]


@given(st.lists(st.one_of(some_composites, some_pods), max_size=8).map(distinct), st.data())
def test_the_order_of_objects_does_not_matter_nor_what_was_there_before(
    groups: list[Made], data: st.DataObject
) -> None:
    objects, shuffled = known(groups), GroupObjects()
    for kind, group in data.draw(st.lists(st.one_of(some_composites, some_pods), max_size=4)):
        shuffled.put_group(kind, group)
        if (kind, group.key) not in [(kind, one.key) for kind, one in groups]:
            shuffled.remove_group(kind, group.key)
        for name in "wxyz":
            shuffled.nested_gang(f"ns/{name}")
    for kind, group in data.draw(st.permutations([*groups, *groups[:2]])):
        before = {name: shuffled.nested_gang(f"ns/{name}") for name in "wxyz"}
        told = shuffled.put_group(kind, group) or shuffled.remove_group(kind, group.key)
        for name in "wxyz":
            changed = shuffled.nested_gang(f"ns/{name}") != before[name]
            assert not changed or group_id(Source.POD_GROUP, f"ns/{name}") in told, "a change is told"
    for kind, group in groups:
        shuffled.put_group(kind, group)
    for name in "wxyz":
        assert shuffled.nested_gang(f"ns/{name}") == objects.nested_gang(f"ns/{name}")
