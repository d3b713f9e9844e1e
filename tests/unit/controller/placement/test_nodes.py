"""The nodes and the pods that count on them."""

from typing import Any

import pytest

from controller.placement import Needs, NodeFacts, Nodes, PodCheck, facts_of, needs_of
from controller.placement.nodes import HOSTNAME


def needs(cpu: int) -> Needs:
    return Needs(requests={"cpu": cpu})


def test_nodes_come_in_order_and_only_while_they_exist() -> None:
    nodes = Nodes()
    for name in ("n2", "n10", "n1"):
        assert nodes.upsert(NodeFacts(name))
    assert list(nodes) == ["n1", "n10", "n2"] == list(nodes.order)
    assert not nodes.upsert(NodeFacts("n1"))
    nodes.remove("n10")
    nodes.count("p", needs(1), "absent")
    assert list(nodes) == ["n1", "n2"]
    assert "absent" not in nodes
    assert nodes.view("absent").pods == 1


def test_asking_for_an_unknown_node_changes_nothing() -> None:
    nodes = Nodes()
    assert nodes.view("n1").facts is None
    assert nodes.labels_of("n1") == {}
    assert nodes.remove("n1") is None
    assert (nodes.generation, nodes.version_of("n1")) == (0, (0, 0))


def test_a_pod_counts_on_one_node() -> None:
    nodes = Nodes()
    assert not nodes.count("p", needs(1), "n1")
    assert not nodes.count("p", needs(1), "n1")
    assert nodes.count("p", needs(2), "n1"), "it may take less than before"
    assert nodes.count("p", needs(2), "n2")
    assert (nodes.view("n1").used["cpu"], nodes.view("n2").used["cpu"]) == (0, 2)
    assert nodes.discount("p")
    assert not nodes.discount("p")
    assert (nodes.view("n1").pods, nodes.view("n2").pods) == (0, 0)


def test_versions_grow_where_something_changed() -> None:
    nodes = Nodes()
    for name in ("n1", "n2"):
        nodes.upsert(NodeFacts(name))
    before = nodes.generation, nodes.version_of("n1"), nodes.version_of("n2")
    nodes.count("p", needs(1), "n1")
    assert nodes.generation > before[0]
    assert nodes.version_of("n1") > before[1]
    assert nodes.version_of("n2") == before[2]
    nodes.mark_changed("")
    assert nodes.version_of("n2") > before[2]


def labelled(labels: dict[str, str], selects: dict[str, str] | None = None) -> Needs:
    spec: dict[str, Any] = {"containers": []}
    if selects is not None:
        term = {"labelSelector": {"matchLabels": selects}, "topologyKey": "zone"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return needs_of({"metadata": {"namespace": "ns", "labels": labels}, "spec": spec})


def test_labels_that_no_term_asks_for_change_no_answer() -> None:
    nodes = Nodes()
    nodes.count("p", labelled({"app": "a"}), "n1")
    before = nodes.generation, nodes.version_of("n1")
    assert not nodes.count("p", labelled({"app": "b"}), "n1")
    assert (nodes.generation, nodes.version_of("n1")) == before


def test_labels_that_a_term_asks_for_change_answers_of_pods_with_the_term_only() -> None:
    nodes = Nodes()
    nodes.upsert(NodeFacts("n1", labels={"zone": "a"}))
    asks, plain = (PodCheck("ns/q", needs, nodes) for needs in (labelled({}, {"app": "a"}), labelled({"app": "c"})))
    before = asks.version, plain.version
    nodes.count("ns/p", labelled({"app": "a"}), "n2")
    assert asks.version != before[0]
    assert plain.version == before[1]
    before = asks.version, plain.version
    assert nodes.count("ns/p", labelled({"app": "b"}), "n2"), "a pod that waits for it may go there now"
    assert asks.version != before[0]
    assert plain.version == before[1]


def test_terms_of_pods_on_nodes_tell_shapes_apart_only_while_they_exist() -> None:
    nodes = Nodes()
    one, other = labelled({"app": "a"}), labelled({"app": "b"})
    assert nodes.shape_of(one) == nodes.shape_of(other)
    nodes.count("ns/p", labelled({}, {"app": "a"}), "n1")
    assert nodes.shape_of(one) != nodes.shape_of(other)
    nodes.discount("ns/p")
    assert nodes.shape_of(one) == nodes.shape_of(other)


def pod_on(selector: dict[str, str] | None = None, *terms: Any) -> Needs:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}}
    spec = {"nodeSelector": selector or {}, **({"affinity": affinity} if terms else {})}
    return needs_of({"metadata": {"namespace": "ns"}, "spec": spec})


def expressions(*pairs: tuple[str, str, list[str]]) -> Any:
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in pairs]
    }


ON_N1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
HOSTS = expressions((HOSTNAME, "In", ["h1", "h2"]))
POOL = expressions(("pool", "In", ["x"]))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (pod_on(), None),
        (pod_on({"pool": "x"}), None),
        (pod_on({HOSTNAME: "h1"}), {"n1"}),
        (pod_on({HOSTNAME: "h1", "pool": "x"}), {"n1"}),
        (pod_on({HOSTNAME: "same"}), {"n3", "n4"}),
        (pod_on({HOSTNAME: "none"}), set()),
        (pod_on(None, ON_N1), {"n1"}),
        (pod_on(None, HOSTS), {"n1", "n2"}),
        (pod_on(None, ON_N1, HOSTS), {"n1", "n2"}),
        (pod_on(None, HOSTS, POOL), None),
        (pod_on(None, expressions((HOSTNAME, "NotIn", ["h1"]))), None),
        (pod_on(None, expressions((HOSTNAME, "In", ["h1"]), ("pool", "In", ["x"]))), {"n1"}),
    ],
)
def test_a_pod_can_be_on_no_other_nodes_than_those_that_it_names(asked: Needs, named: set[str] | None) -> None:
    nodes = Nodes()
    for name, host in (("n1", "h1"), ("n2", "h2"), ("n3", "same"), ("n4", "same"), ("n5", "")):
        nodes.upsert(NodeFacts(name, ready=True, labels={HOSTNAME: host} if host else {}, allocatable={"pods": 10**10}))
    found = nodes.named_by(asked)
    assert (found if found is None else set(found)) == named
    passing = {name for name in nodes if PodCheck("ns/p", asked, nodes).passes(name)}
    assert found is None or passing <= set(found)


def test_the_nodes_that_a_pod_names_follow_their_labels() -> None:
    nodes, asked = Nodes(), pod_on({HOSTNAME: "h1"})
    nodes.upsert(NodeFacts("n1", labels={HOSTNAME: "h1"}))
    assert nodes.named_by(asked) == {"n1"}
    nodes.upsert(NodeFacts("n1", labels={HOSTNAME: "h2"}))
    nodes.upsert(NodeFacts("n2", labels={HOSTNAME: "h1"}))
    assert nodes.named_by(asked) == {"n2"}
    nodes.remove("n2")
    nodes.upsert(NodeFacts("n1"))
    assert not nodes.named_by(asked)


def test_a_node_that_does_not_exist_and_has_no_pods_is_forgotten() -> None:
    nodes, versions = Nodes(), []
    for number in range(3):
        nodes.upsert(NodeFacts("n1"))
        nodes.count("default/p", needs(1), "n1")
        versions.append(nodes.version_of("n1"))
        nodes.remove("n1")
        nodes.discount("default/p")
        nodes.mark_changed("n1")
        versions.append(nodes.version_of("n1"))
        assert not nodes._views, f"round {number}"
    assert versions == sorted(set(versions)), "what was found out about an earlier node of this name does not count"


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": {"taints": [{"key": "k", "effect": ["NoSchedule"]}]}},
        {"spec": {"taints": [{"key": ["k"], "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "k", "value": {"v": 1}, "effect": "NoSchedule"}]}},
        {"metadata": {"name": "n1", "labels": {"rack": ["a"]}}},
        {"status": {"declaredFeatures": [["f"]]}},
    ],
)
def test_a_node_whose_texts_are_none_is_not_decoded(odd: dict[str, Any]) -> None:
    """Nodes are compared, so this would be found out much later."""
    with pytest.raises(TypeError, match="in the place of a text"):
        facts_of({"metadata": {"name": "n1"}, **odd})
