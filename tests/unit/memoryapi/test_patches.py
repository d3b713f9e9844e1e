from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoryapi.patches import json_patch, merge, strategic
from memoryapi.schema import type_of

WHOLE = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab", max_size=2), WHOLE, max_size=3)


@given(OBJECTS)
def test_merging_nothing_or_itself_changes_nothing(obj: Any) -> None:
    assert merge(obj, {}) == obj
    assert merge(obj, obj) == obj


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(obj: Any, patch: Any) -> None:
    once = merge(obj, patch)
    assert merge(once, patch) == once


@given(OBJECTS, OBJECTS)
def test_a_merge_leaves_its_inputs_alone(obj: Any, patch: Any) -> None:
    before = repr((obj, patch))
    merged = merge(obj, patch)
    merged["new"] = 1
    assert repr((obj, patch)) == before


@given(OBJECTS, WHOLE)
def test_a_json_patch_can_be_taken_back(obj: Any, value: Any) -> None:
    added = json_patch(
        obj, [{"op": "add", "path": "/new", "value": value}, {"op": "copy", "from": "/new", "path": "/n"}]
    )
    assert added == {**obj, "new": value, "n": value}
    moved = json_patch(added, [{"op": "move", "from": "/n", "path": "/m"}, {"op": "replace", "path": "/m", "value": 0}])
    assert json_patch(moved, [{"op": "remove", "path": "/m"}, {"op": "remove", "path": "/new"}]) == obj


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(NAMES, NAMES)
def test_a_strategic_merge_keeps_every_item_and_both_orders_where_it_can(before: list[str], patch: list[str]) -> None:
    def gates(names: list[str]) -> Any:
        return {"spec": {"schedulingGates": [{"name": name} for name in names]}}

    merged = strategic(type_of("Pod"), gates(before), gates(patch))
    names = [gate["name"] for gate in merged["spec"]["schedulingGates"]]
    assert sorted(names) == sorted({*before, *patch})
    assert [name for name in names if name in patch] == patch
    assert [name for name in names if name not in patch] == [name for name in before if name not in patch]


def test_directives_of_a_strategic_merge() -> None:
    pod = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    changed = strategic(
        type_of("Pod"),
        pod,
        {
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "labels": {"$patch": "replace", "x": "y"}},
            "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
        },
    )
    assert changed == {
        "metadata": {"finalizers": ["b"], "labels": {"x": "y"}},
        "spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
    }
    replaced = {"spec": {"volumes": [{"$patch": "replace"}, {"name": "w"}]}}
    assert strategic(type_of("Pod"), pod, replaced)["spec"]["volumes"] == [{"name": "w"}]
    assert strategic(type_of("Pod"), pod, {"spec": {"$patch": "delete"}})["spec"] == {}
