"""A core/v1 NodeSelector matches as kube-scheduler's helper for it does (k8s.io/component-helpers/nodeaffinity)."""

import pytest

from driver.model import NodeRequirement, NodeSelector, NodeSelectorTerm
from driver.node_selectors import selects
from driver.wire import only_node

LABELS = {"zone": "a", "cards": "8", "empty": ""}


def term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions=(NodeRequirement(key, operator, values),))


def field(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(fields=(NodeRequirement(key, operator, values),))


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (term("zone", "In", "a", "b"), True),
        (term("zone", "In", "b"), False),
        (term("zone", "In"), False),
        (term("none", "In", "b"), False),
        (term("empty", "In", ""), True),
        (term("none", "In", ""), False),
        (term("zone", "NotIn", "b"), True),
        (term("zone", "NotIn", "a"), False),
        (term("none", "NotIn", "b"), True),
        (term("zone", "Exists"), True),
        (term("empty", "Exists"), True),
        (term("none", "Exists"), False),
        (term("none", "DoesNotExist"), True),
        (term("zone", "DoesNotExist"), False),
        (term("cards", "Gt", "7"), True),
        (term("cards", "Gt", "8"), False),
        (term("cards", "Lt", "9"), True),
        (term("cards", "Lt", "8"), False),
        (term("cards", "Gt"), False),
        (term("cards", "Gt", "few"), False),
        (term("zone", "Gt", "1"), False),
        (term("none", "Lt", "1"), False),
        (term("zone", "Like", "a"), False),
        (field("metadata.name", "In", "n1"), True),
        (field("metadata.name", "NotIn", "n1"), False),
        (field("spec.unschedulable", "In", "true"), False),
        (term("metadata.name", "In", "n1"), False),
        (NodeSelectorTerm(), False),
    ],
)
def test_one_term(requirement: NodeSelectorTerm, holds: bool) -> None:
    assert selects(NodeSelector((requirement,)), "n1", LABELS) is holds


def test_all_requirements_of_a_term_must_hold_and_one_term_is_enough() -> None:
    here, elsewhere = NodeRequirement("zone", "In", ("a",)), NodeRequirement("zone", "In", ("b",))
    name = NodeRequirement("metadata.name", "In", ("n1",))
    assert selects(NodeSelector((NodeSelectorTerm((here,), (name,)),)), "n1", LABELS)
    assert not selects(NodeSelector((NodeSelectorTerm((here, elsewhere), (name,)),)), "n1", LABELS)
    assert not selects(NodeSelector((NodeSelectorTerm((here,), (name,)),)), "n2", LABELS)
    assert selects(NodeSelector((NodeSelectorTerm((elsewhere,)), NodeSelectorTerm((here,)))), "n1", LABELS)
    assert selects(NodeSelector((NodeSelectorTerm(), NodeSelectorTerm((here,)))), "n1", LABELS)
    assert not selects(NodeSelector(()), "n1", LABELS)


def test_the_selector_for_one_node_matches_that_node_only() -> None:
    assert [selects(only_node("n1"), name, {}) for name in ("n1", "n2")] == [True, False]
