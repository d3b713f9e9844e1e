"""Each predicate answers as kube-scheduler's plugin does, and says why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement import ExtendedResources, NodeFacts, Nodes, NodeView, facts_of, fits, needs_of
from driver.quantity import NANO

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node(labels: dict[str, str] | None = None, ready: str = "True", **spec: Any) -> NodeView:
    allocatable = spec.pop("allocatable", {"cpu": "4", "memory": "8Gi", "pods": "3", "example.com/x": "2"})
    view = NodeView("n1")
    view.facts = facts_of(
        {
            "metadata": {"name": "n1", "labels": labels or {}},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": allocatable},
        }
    )
    return view


def pod(requests: dict[str, str] | None = None, ports: tuple[int, ...] = (), **spec: Any) -> Any:
    main = {"name": "main", "resources": {"requests": requests or {}}, "ports": [{"hostPort": port} for port in ports]}
    return needs_of({"spec": {"containers": [main], **spec}})


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def taint(effect: str, key: str = "gpu", value: str = "yes") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def tolerate(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


LABELS = {"zone": "a", "cards": "8"}

TABLE: list[tuple[str, Any, NodeView, tuple[str, ...]]] = [
    ("a plain pod", pod(), node(), ()),
    ("a node that is not ready", pod(), node(ready="False"), ("the node is not ready",)),
    ("a node that is silent", pod(), node(ready="Unknown"), ("the node is not ready",)),
    ("a cordoned node", pod(), node(unschedulable=True), ("the node is unschedulable",)),
    (
        "a cordoned node says so once",
        pod(),
        node(unschedulable=True, taints=[UNSCHEDULABLE]),
        ("the node is unschedulable",),
    ),
    (
        "a cordoned node and a pod that tolerates it",
        pod(**tolerate(key="node.kubernetes.io/unschedulable", operator="Exists")),
        node(unschedulable=True, taints=[UNSCHEDULABLE]),
        (),
    ),
    ("a taint", pod(), node(taints=[taint("NoSchedule")]), ("node taint gpu=yes:NoSchedule is not tolerated",)),
    ("an evicting taint", pod(), node(taints=[taint("NoExecute")]), ("node taint gpu=yes:NoExecute is not tolerated",)),
    ("a taint that only prefers", pod(), node(taints=[taint("PreferNoSchedule")]), ()),
    ("an equal toleration", pod(**tolerate(key="gpu", value="yes")), node(taints=[taint("NoSchedule")]), ()),
    (
        "a toleration of another value",
        pod(**tolerate(key="gpu", value="no")),
        node(taints=[taint("NoSchedule")]),
        ("node taint gpu=yes:NoSchedule is not tolerated",),
    ),
    (
        "a toleration of another effect",
        pod(**tolerate(key="gpu", operator="Exists", effect="NoExecute")),
        node(taints=[taint("NoSchedule")]),
        ("node taint gpu=yes:NoSchedule is not tolerated",),
    ),
    ("a toleration of everything", pod(**tolerate(operator="Exists")), node(taints=[taint("NoExecute")]), ()),
    (
        "an unknown operator tolerates nothing",
        pod(**tolerate(key="gpu", operator="Near", value="yes")),
        node(taints=[taint("NoSchedule")]),
        ("node taint gpu=yes:NoSchedule is not tolerated",),
    ),
    ("nodeSelector matches", pod(nodeSelector={"zone": "a"}), node(LABELS), ()),
    (
        "nodeSelector does not",
        pod(nodeSelector={"zone": "b"}),
        node(LABELS),
        ("the node does not match the pod's nodeSelector",),
    ),
    ("enough of everything", pod({"cpu": "4", "memory": "8Gi", "example.com/x": "2"}), node(), ()),
    ("too little cpu", pod({"cpu": "4001m"}), node(), ("insufficient cpu (4001m requested)",)),
    ("too little memory", pod({"memory": "9Gi"}), node(), ("insufficient memory (9Gi requested)",)),
    (
        "no ephemeral storage",
        pod({"ephemeral-storage": "1Gi"}),
        node(),
        ("insufficient ephemeral-storage (1Gi requested)",),
    ),
    ("an unknown resource", pod({"example.com/y": "1"}), node(), ("insufficient example.com/y (1 requested)",)),
    ("a resource that a class stands for", pod({"deviceclass.resource.kubernetes.io/gpu": "1"}), node(), ()),
]


@pytest.mark.parametrize(("needs", "view", "reasons"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_predicate(needs: Any, view: NodeView, reasons: tuple[str, ...]) -> None:
    assert fits("default/p", needs, view) == reasons


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([expression("zone", "In", "a", "b")], True),
        ([expression("zone", "In", "b")], False),
        ([expression("none", "In", "b")], False),
        ([expression("zone", "NotIn", "b")], True),
        ([expression("none", "NotIn", "b")], True),
        ([expression("zone", "NotIn", "a")], False),
        ([expression("zone", "Exists")], True),
        ([expression("none", "Exists")], False),
        ([expression("none", "DoesNotExist")], True),
        ([expression("zone", "DoesNotExist")], False),
        ([expression("cards", "Gt", "7")], True),
        ([expression("cards", "Gt", "8")], False),
        ([expression("cards", "Lt", "9")], True),
        ([expression("zone", "Gt", "1")], False),
        ([expression("none", "Lt", "1")], False),
        ([expression("zone", "Like", "a")], False),
        ([expression("zone", "In", "b"), expression("zone", "In", "a")], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}], False),
        ([{}], False),
        ([{}, expression("zone", "In", "a")], True),
        ([], False),
    ],
)
def test_required_node_affinity(terms: list[dict[str, Any]], matches: bool) -> None:
    reasons = () if matches else ("the node does not match the pod's required node affinity",)
    assert fits("default/p", pod(**affinity(*terms)), node(LABELS)) == reasons


def test_all_reasons_are_given_at_once() -> None:
    needs = pod({"cpu": "9"}, nodeSelector={"zone": "b"})
    assert len(fits("default/p", needs, node(unschedulable=True, ready="False"))) == 4


def test_pods_on_the_node_and_pods_promised_to_it_count() -> None:
    view = node()
    view.add("default/a", pod({"cpu": "3"}, ports=(80,)))
    assert fits("default/p", pod({"cpu": "2"}, ports=(80,)), view) == (
        "insufficient cpu (2 requested)",
        "host port 80/TCP is taken",
    )
    view.add("default/b", pod())
    view.add("default/c", pod())
    assert fits("default/p", pod(), view) == ("too many pods",)


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    view = node(allocatable={"cpu": "4", "pods": "1"})
    needs = pod({"cpu": "3"}, ports=(80,))
    view.add("default/p", needs)
    assert fits("default/p", needs, view) == ()


def test_a_resource_that_a_class_stands_for_is_only_counted_where_the_node_has_it() -> None:
    needs, backed = pod({"example.com/x": "3"}), ExtendedResources(by_scheduler=frozenset({"example.com/x"}))
    assert fits("default/p", needs, node(), backed) == ("insufficient example.com/x (3 requested)",)
    assert fits("default/p", needs, node(allocatable={"pods": "1"}), backed) == ()


@pytest.mark.parametrize("name", ["example.com/x", "deviceclass.resource.kubernetes.io/x"])
def test_a_resource_for_devices_that_are_allocated_here_needs_a_device_plugin_or_a_claim(name: str) -> None:
    here = ExtendedResources(by_claim=frozenset({name}))
    [reason] = fits("default/p", pod({name: "1"}), node(allocatable={"pods": "1"}), here)
    assert reason.startswith(f"{name} stands for devices that are allocated for claims alone: ask for them with")
    assert fits("default/p", pod({name: "1"}), node(allocatable={"pods": "1", name: "1"}), here) == ()


def test_a_node_that_is_gone_takes_nothing() -> None:
    assert fits("default/p", pod(), NodeView("n1")) == ("the node does not exist",)


def test_nodes_are_tried_in_the_order_of_their_names() -> None:
    nodes = Nodes()
    for name in ("n2", "n10", "n1"):
        nodes.upsert(NodeFacts(name))
    assert list(nodes.order) == ["n1", "n10", "n2"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.integers(0, 5), st.integers(0, 3)), max_size=30))
def test_what_is_counted_is_always_the_sum_over_the_pods(steps: list[tuple[bool, str, int, int]]) -> None:
    nodes = Nodes()
    held: dict[str, Any] = {}
    for add, name, cpu, port in steps:
        before = nodes.version_of("n1")
        if add:
            needs = pod({"cpu": str(cpu)}, ports=(port + 1,) if port else ())
            changed = held.get(name) != needs
            nodes.count(name, needs, "n1")
            held[name] = needs
        else:
            changed = name in held
            assert nodes.discount(name) == changed
            held.pop(name, None)
        assert (nodes.version_of("n1") > before) == changed
    view = nodes.view("n1")
    assert view.used["cpu"] == sum(needs.requests.get("cpu", 0) for needs in held.values())
    assert view.used["cpu"] % NANO == 0
    assert sum(view.ports.values()) == sum(len(needs.ports) for needs in held.values())
    assert view.pods == len(held)
