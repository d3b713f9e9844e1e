"""Affinity between pods and topology spread answer as kube-scheduler's plugins do, whatever happened before."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.placement import NodeFacts, Nodes, PodCheck, facts_of, needs_of
from driver.quantity import NANO
from tests.unit.controller.placement.reference import affinity_allows, spread_allows

NAMESPACES = {"one": {"team": "red"}, "two": {"team": "blue"}, "three": {}}

selectors: st.SearchStrategy[dict[str, Any] | None] = st.one_of(
    st.none(),
    st.just({}),
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2).map(
        lambda labels: {"matchLabels": labels}
    ),
    st.builds(
        lambda key, operator, values: {
            "matchExpressions": [
                {"key": key, "operator": operator} | ({"values": values} if operator in ("In", "NotIn") else {})
            ]
        },
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
    ),
)
namespace_selectors = st.sampled_from([None, {}, {"matchLabels": {"team": "red"}}])
keys = st.sampled_from(["host", "zone"])


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": draw(keys), "labelSelector": draw(selectors)}
    if named := draw(st.lists(st.sampled_from(sorted(NAMESPACES)), max_size=2, unique=True)):
        term["namespaces"] = named
    if (further := draw(namespace_selectors)) is not None:
        term["namespaceSelector"] = further
    return term


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {
        "topologyKey": draw(keys),
        "labelSelector": draw(selectors),
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
    }
    if least := draw(st.integers(0, 3)):
        found["minDomains"] = least
    return found


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    required = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms(), max_size=2))}
        for kind in ("podAffinity", "podAntiAffinity")
        if draw(st.booleans())
    }
    labels = draw(st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2))
    metadata = {"namespace": draw(st.sampled_from(sorted(NAMESPACES))), "labels": labels}
    if draw(st.booleans()):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spread = draw(st.lists(constraints(), max_size=2))
    return {"metadata": metadata, "spec": {"affinity": required, "topologySpreadConstraints": spread}}


def nodes_of(labels: dict[str, dict[str, str]]) -> Nodes:
    nodes = Nodes()
    for namespace, its in NAMESPACES.items():
        nodes.pods.put_namespace(namespace, its)
    for name, own in labels.items():
        nodes.upsert(NodeFacts(name, ready=True, labels=own, allocatable={"pods": 100 * NANO}))
    return nodes


node_labels = st.fixed_dictionaries(
    {},
    optional={"host": st.sampled_from(["h1", "h2"]), "zone": st.sampled_from(["z1", "z2"])},
)
clusters = st.dictionaries(st.sampled_from(["n1", "n2", "n3", "n4"]), node_labels, min_size=1)


@given(clusters, st.lists(st.tuples(pods(), st.integers(0, 3), st.booleans()), max_size=6), pods())
def test_the_answer_for_each_node_is_kube_schedulers(
    labels: dict[str, dict[str, str]], others: list[tuple[dict[str, Any], int, bool]], pod: dict[str, Any]
) -> None:
    nodes, names = nodes_of(labels), sorted(labels)
    needs = needs_of(pod)
    check = PodCheck("p", needs, nodes)
    check.version  # noqa: B018  # what is asked once is counted from then on
    for number, (other, place, _) in enumerate(others):
        nodes.count(str(number), needs_of(other), names[place % len(names)])
    for number, (_, _, gone) in enumerate(others):
        if gone:
            nodes.discount(str(number))
    cluster = [(other, names[place % len(names)]) for other, place, gone in others if not gone]
    fresh = PodCheck("p", needs, nodes)
    for name in names:
        expected = affinity_allows(pod, name, labels, cluster, NAMESPACES) and spread_allows(pod, name, labels, cluster)
        assert fresh.passes(name) == expected, (name, fresh.reasons(name))
        assert fresh.passes(name) == (not fresh.reasons(name))


@given(clusters, st.lists(st.tuples(pods(), st.integers(0, 3)), min_size=1, max_size=5), pods(), st.booleans())
def test_an_answer_changes_only_with_a_version(
    labels: dict[str, dict[str, str]],
    others: list[tuple[dict[str, Any], int]],
    pod: dict[str, Any],
    asked_before: bool,
) -> None:
    nodes, names, needs = nodes_of(labels), sorted(labels), needs_of(pod)
    for number, (other, place) in enumerate(others):
        if asked_before:
            PodCheck("p", needs, nodes).reasons(names[0])

        def state() -> dict[str, tuple[object, object, tuple[str, ...]]]:
            check = PodCheck("p", needs, nodes)
            shape, version = nodes.shape_of(needs), check.version
            return {name: (shape, (version, nodes.version_of(name)), check.reasons(name)) for name in names}

        before = state()
        nodes.count(str(number % 2), needs_of(other), names[place % len(names)])
        for name, (shape, version, reasons) in state().items():
            if (shape, version) == before[name][:2]:
                assert reasons == before[name][2]


@given(clusters, st.lists(st.tuples(pods(), st.integers(0, 3)), max_size=4), pods(), pods())
def test_a_trial_counts_the_pod_and_leaves_nothing_behind(
    labels: dict[str, dict[str, str]],
    others: list[tuple[dict[str, Any], int]],
    held: dict[str, Any],
    pod: dict[str, Any],
) -> None:
    nodes, names = nodes_of(labels), sorted(labels)
    for number, (other, place) in enumerate(others):
        nodes.count(str(number), needs_of(other), names[place % len(names)])
    needs = needs_of(pod)

    def answers() -> list[tuple[str, ...]]:
        check = PodCheck("p", needs, nodes)
        return [check.reasons(name) for name in names]

    before = answers()
    change = nodes.placing("q", names[0], needs_of(held))
    nodes.apply(change)
    during = answers()
    nodes.revert(change)
    assert answers() == before
    nodes.count("q", needs_of(held), names[0])
    assert answers() == during


@given(clusters, pods(), pods())
def test_a_pod_does_not_stand_in_its_own_way(
    labels: dict[str, dict[str, str]], pod: dict[str, Any], other: dict[str, Any]
) -> None:
    nodes, names = nodes_of(labels), sorted(labels)
    nodes.count("q", needs_of(other), names[-1])
    needs = needs_of(pod)
    before = [PodCheck("p", needs, nodes).reasons(name) for name in names]
    nodes.count("p", needs, names[0])
    assert [PodCheck("p", needs, nodes).reasons(name) for name in names] == before


def test_a_term_that_is_written_twice_counts_once() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, term]}}}
    nodes = nodes_of({"n1": {"zone": "z1"}})
    needs = needs_of({"metadata": {"namespace": "one"}, "spec": spec})
    nodes.count("one/p", needs, "n1")
    assert PodCheck("one/p", needs, nodes).passes("n1")


def test_labels_of_a_namespace_count_as_soon_as_they_change() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "green"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    nodes = nodes_of({"n1": {"zone": "z1"}})
    nodes.count("two/q", needs_of({"metadata": {"namespace": "two"}, "spec": {}}), "n1")
    needs = needs_of({"metadata": {"namespace": "one"}, "spec": spec})
    check = PodCheck("one/p", needs, nodes)
    before = check.version
    assert check.passes("n1")
    assert nodes.pods.put_namespace("two", {"team": "green"})
    assert check.version != before
    assert PodCheck("one/p", needs, nodes).reasons("n1") == (
        "a pod that the pod's required anti-affinity excludes is in the node's zone",
    )
    assert nodes.pods.put_namespace("two", None)
    assert PodCheck("one/p", needs, nodes).passes("n1")


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


def test_nodes_that_the_pod_cannot_use_count_for_spread_as_the_policies_say() -> None:
    tainted = {"key": "gpu", "effect": "NoSchedule"}
    nodes = Nodes()
    for name, labels, taints in (("n1", {"zone": "z1", "disk": "ssd"}, []), ("n2", {"zone": "z2"}, [tainted])):
        raw = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"}}
        nodes.upsert(facts_of({**raw, "status": status}))

    def passes(node_selector: dict[str, str] | None = None, **policies: str) -> bool:
        app = {"matchLabels": {"app": "a"}}
        spec = {
            "topologySpreadConstraints": [{**SPREAD, "labelSelector": app, **policies}],
            "nodeSelector": node_selector,
        }
        needs = needs_of({"metadata": {"namespace": "one", "labels": {"app": "a"}}, "spec": spec})
        nodes.count("one/q", needs, "n1")
        return PodCheck("one/p", needs, nodes).passes("n1")

    assert not passes(), "the empty zone z2 counts"
    assert passes({"disk": "ssd"}), "its node selector leaves z2 out"
    assert not passes({"disk": "ssd"}, nodeAffinityPolicy="Ignore")
    assert passes(nodeTaintsPolicy="Honor"), "its tolerations leave z2 out"


def test_match_label_keys_are_part_of_the_selector_of_a_spread() -> None:
    nodes = nodes_of({"n1": {"zone": "z1"}, "n2": {"zone": "z2"}})
    spec = {"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["revision", "absent"]}]}

    def needs(revision: str) -> Any:
        return needs_of({"metadata": {"namespace": "one", "labels": {"revision": revision}}, "spec": spec})

    nodes.count("one/q", needs("1"), "n1")
    assert PodCheck("one/p", needs("2"), nodes).passes("n1")
    assert not PodCheck("one/p", needs("1"), nodes).passes("n1")
