"""A plan places all pods of a group or none, counts what each takes for the next, and leaves everything as it was."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.placement import Needs, NodeFacts, Nodes, Placed, PodDemand, needs_of, place
from controller.placement.needs import HostPort
from driver.quantity import Quantity
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, pool, want
from tests.unit.controller.placement.plans import NoPlan, Plan, plan

CPU = Quantity.parse("1").nanos


def cluster(devices: Sequence[int], cpus: int = 100, pods: int = 100) -> tuple[Fleet, Nodes]:
    """Nodes n1, n2, ... with so many devices, and the same CPUs and room for pods each."""
    built, nodes = fleet(), Nodes()
    for number, count in enumerate(devices, start=1):
        name = f"n{number}"
        built.ledger.upsert_node(name, {})
        for part in pool(*(device(f"gpu-{i}") for i in range(count)), node=name):
            built.ledger.upsert_slice(part)
        nodes.upsert(
            NodeFacts(name, ready=True, labels={"host": name}, allocatable={"pods": pods * CPU, "cpu": cpus * CPU})
        )
    return built, nodes


def pod(name: str, *, count: int = 1, cpus: int = 1, ports: tuple[int, ...] = (), among: str = "") -> PodDemand:
    asked = (claim(want(count=count), name=name),) if count else ()
    needs = Needs({"cpu": cpus * CPU}, tuple(HostPort("TCP", "0.0.0.0", port) for port in ports))
    return PodDemand(f"ns/{name}", needs, asked, (among,) if among else None)


def nodes_of(answer: Plan | NoPlan) -> list[str]:
    assert isinstance(answer, Plan), answer
    return [placement.node for placement in answer.placements]


def devices_of(answer: Plan | NoPlan) -> list[str]:
    assert isinstance(answer, Plan), answer
    return [
        f"{placement.node}/{result.device.device}"
        for placement in answer.placements
        for allocation in placement.allocations
        for result in allocation.results
    ]


def test_a_group_gets_different_devices() -> None:
    group = [pod("a"), pod("b"), pod("c", count=2)]
    assert devices_of(plan(group, *cluster([3, 2]))) == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1"]


def test_devices_of_other_drivers_count_for_the_next() -> None:
    built, nodes = cluster([2, 2])
    for name in ("n1", "n2"):
        for part in pool(device("nic-0", {"kind": "nic"}), node=name, driver="nic.example.com"):
            built.ledger.upsert_slice(part)
    group = [replace(pod(name), other_drivers_claims=(claim(want("nic"), name=f"nic-{name}"),)) for name in "abc"]
    assert devices_of(plan(group[:2], built, nodes)) == ["n1/gpu-0", "n2/gpu-0"]
    assert plan(group, built, nodes) == NoPlan("ns/c", 2)


def test_cpu_of_one_pod_counts_for_the_next() -> None:
    assert nodes_of(plan([pod("a", cpus=2), pod("b", cpus=2)], *cluster([8, 8], cpus=3))) == ["n1", "n2"]


def test_pods_count_for_the_next() -> None:
    assert nodes_of(plan([pod("a"), pod("b")], *cluster([8, 8], pods=1))) == ["n1", "n2"]


def test_host_ports_of_one_pod_are_taken_for_the_next() -> None:
    assert nodes_of(plan([pod("a", ports=(80,)), pod("b", ports=(80,))], *cluster([8, 8]))) == ["n1", "n2"]


def test_pods_with_anti_affinity_get_a_node_each() -> None:
    group = [replace(pod(name), needs=apart("app")) for name in "abcd"]
    assert nodes_of(plan(group, *cluster([8] * 6))) == ["n1", "n2", "n3", "n4"]


def test_pods_with_anti_affinity_avoid_the_nodes_of_those_that_run() -> None:
    built, nodes = cluster([8] * 6)
    for name, node in (("a", "n1"), ("b", "n3")):
        nodes.count(f"ns/{name}", apart("app"), node)
    group = [replace(pod(name), needs=apart("app")) for name in "cd"]
    assert nodes_of(plan(group, built, nodes)) == ["n2", "n4"]
    assert nodes_of(plan([replace(pod("e"), needs=apart("other"))], built, nodes)) == ["n1"]


def test_pods_of_a_group_with_affinity_follow_the_first() -> None:
    together = needs_of(
        {
            "metadata": {"namespace": "ns", "labels": {"app": "a"}},
            "spec": {"affinity": {"podAffinity": required_on_host("a")}},
        }
    )
    group = [replace(pod("a", count=0, cpus=0, among="n2")), replace(pod("b"), needs=together)]
    group[0] = replace(group[0], needs=together)
    assert nodes_of(plan([*group, replace(pod("c"), needs=together)], *cluster([8, 8, 8]))) == ["n2", "n2", "n2"]


def test_pods_of_a_group_are_spread() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    spread = needs_of(
        {
            "metadata": {"namespace": "ns", "labels": {"app": "a"}},
            "spec": {"topologySpreadConstraints": [constraint]},
        }
    )
    group = [replace(pod(name), needs=spread) for name in "abcd"]
    assert nodes_of(plan(group, *cluster([8, 8, 8]))) == ["n1", "n2", "n3", "n1"]


def prior(name: str, priority: int, cpus: int = 2, count: int = 1, **fields: Any) -> PodDemand:
    demand = pod(name, count=count, cpus=cpus)
    return replace(demand, needs=replace(demand.needs, priority=priority, preempts=True, **fields))


def full(priorities: Mapping[str, Sequence[int]], devices: Sequence[int] = (8, 8, 8)) -> tuple[Fleet, Nodes]:
    """Nodes of 3 CPUs with pods of one CPU and these priorities."""
    built, nodes = cluster(devices, cpus=3)
    for node, its in priorities.items():
        for number, priority in enumerate(its):
            nodes.count(f"ns/{node}-{number}", prior("", priority, cpus=1).needs, node)
    return built, nodes


PREEMPTION: list[tuple[str, dict[str, Sequence[int]], PodDemand, list[str]]] = [
    ("the lowest highest victim", {"n1": (5, 5), "n2": (1, 1), "n3": (9, 9)}, prior("p", 10), ["n2"]),
    ("as few victims as needed", {"n1": (1, 1, 1), "n2": (1, 1), "n3": (1, 1, 1)}, prior("p", 10), ["n2"]),
    ("the first of equal nodes", {"n1": (1, 1), "n2": (1, 1), "n3": (1, 1)}, prior("p", 10), ["n1"]),
    ("the victim of the lowest priority", {"n1": (9, 1), "n2": (2, 2), "n3": (9, 9)}, prior("p", 10), ["n1"]),
    ("equal priority stays", {"n1": (10, 10), "n2": (1, 10), "n3": (10, 10)}, prior("p", 10), ["n2"]),
    ("nothing to evict", {"n1": (10, 10), "n2": (11, 11), "n3": (10, 10)}, prior("p", 10), []),
    ("too few to evict", {"n1": (1, 1), "n2": (1, 1), "n3": (1, 1)}, prior("p", 10, cpus=4), []),
    ("room without eviction", {"n1": (1, 1), "n2": (), "n3": (1, 1)}, prior("p", 10), ["n2"]),
    ("a pod that evicts nobody", {"n1": (1, 1), "n2": (1, 1), "n3": (1, 1)}, pod("p", cpus=2), []),
]


@pytest.mark.parametrize(
    ("running", "asked", "expected"), [case[1:] for case in PREEMPTION], ids=[case[0] for case in PREEMPTION]
)
def test_a_pod_goes_where_kube_scheduler_makes_room(
    running: Mapping[str, Sequence[int]], asked: PodDemand, expected: list[str]
) -> None:
    answer = plan([asked], *full(running))
    assert (nodes_of(answer) if isinstance(answer, Plan) else []) == expected


def test_no_room_is_made_while_a_node_without_devices_has_some() -> None:
    running = {"n1": (1, 1), "n2": (1, 1)}
    assert isinstance(plan([prior("p", 10)], *full(running, (8, 8, 0))), NoPlan)
    assert nodes_of(plan([prior("p", 10)], *full({**running, "n3": (1, 1)}, (8, 8, 0)))) == ["n1"]
    assert nodes_of(plan([prior("p", 10)], *full({**running, "n3": (1, 1)}, (0, 8, 0)))) == ["n2"], "n1 has no devices"


def test_two_pods_of_a_group_do_not_evict_the_same_pods() -> None:
    running = {"n1": (1, 1), "n2": (1, 1), "n3": (11, 11)}
    assert nodes_of(plan([prior("p", 10), prior("q", 10)], *full(running))) == ["n1", "n2"]


def required_on_host(app: str) -> dict[str, Any]:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": app}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def apart(app: str) -> Needs:
    """The needs of a replica of a Deployment that wants a node for each."""
    return needs_of(
        {
            "metadata": {"namespace": "ns", "labels": {"app": app}},
            "spec": {"affinity": {"podAntiAffinity": required_on_host(app)}},
        }
    )


def test_a_pod_without_claims_is_placed_by_what_else_it_needs() -> None:
    assert nodes_of(plan([pod("a", count=0, cpus=2), pod("b", count=0, cpus=2)], *cluster([0, 0], cpus=3))) == [
        "n1",
        "n2",
    ]


def test_if_one_pod_does_not_fit_none_is_placed_and_the_answer_names_it() -> None:
    built, nodes = cluster([1, 1])
    assert plan([pod("a"), pod("b"), pod("c")], built, nodes) == NoPlan("ns/c", 2)
    assert built.ledger.usage_snapshot() == {}


def test_claims_that_are_invalid_as_written_are_faults() -> None:
    wrong = replace(pod("a"), claims=(claim(want("missing")),))
    answer = plan([pod("b"), wrong], *cluster([2]))
    assert isinstance(answer, NoPlan)
    assert (answer.pod, answer.placed) == ("ns/a", 1)
    assert "missing" in str(answer.faults[0])


def test_nodes_to_avoid_and_the_only_nodes_that_are_possible() -> None:
    built, nodes = cluster([1, 1, 1])
    assert nodes_of(plan([replace(pod("a"), avoid=frozenset({"n1"}))], built, nodes)) == ["n2"]
    assert nodes_of(plan([pod("a", among="n3")], built, nodes)) == ["n3"]
    assert plan([replace(pod("a", among="n3"), avoid=frozenset({"n3"}))], built, nodes) == NoPlan("ns/a")


def test_predicates_do_not_apply_to_a_pod_that_is_bound() -> None:
    assert nodes_of(plan([replace(pod("a", cpus=5), bound_to="n2")], *cluster([1, 1], cpus=1))) == ["n2"]


def test_the_same_pod_may_be_put_repeatedly() -> None:
    with Cluster.unlimited(*cluster([2, 1])).what_if() as trial:
        found, depths = [], []
        for _ in range(4):
            depths.append(trial.depth)
            found.append(trial.schedule(pod("a")))
        assert [one.node if isinstance(one, Placed) else "" for one in found] == ["n1", "n1", "n2", ""]
        trial.undo(depths[1])
        again = trial.schedule(pod("a"))
        assert isinstance(again, Placed)
        assert again.node == "n1"


# Laws

pods = st.builds(
    pod,
    st.sampled_from("abcd"),
    count=st.integers(0, 3),
    cpus=st.integers(0, 3),
    ports=st.sampled_from([(), (), (80,), (81,)]),
)
clusters = st.builds(cluster, st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 3))


def state(built: Fleet, nodes: Nodes) -> object:
    views = {name: (+view.used, +view.ports, view.pods, view.version) for name, view in nodes.items()}
    return built.ledger.usage_snapshot(), built.ledger.free_counters(), views, nodes.generation


@given(clusters, st.lists(pods, max_size=5))
def test_a_plan_leaves_everything_as_it_was_and_is_the_same_again(
    made: tuple[Fleet, Nodes], group: list[PodDemand]
) -> None:
    before = state(*made)
    first = plan(group, *made)
    assert state(*made) == before
    assert plan(group, *made) == first


@given(clusters, st.lists(pods, min_size=1, max_size=5))
def test_a_group_is_placed_as_its_pods_are_one_after_another(made: tuple[Fleet, Nodes], group: list[PodDemand]) -> None:
    built, nodes = made
    answer = plan(group, built, nodes)
    placed = []
    for number, one in enumerate(group):
        alone = plan([one], built, nodes)
        if isinstance(alone, NoPlan):
            assert answer == replace(alone, placed=number)
            return
        (placement,) = alone.placements
        placed.append(placement)
        for at, allocation in enumerate(placement.allocations):
            built.ledger.assume(f"held-{number}-{at}", allocation)
        nodes.count(f"held-{number}", one.needs, placement.node)
    assert answer == Plan(tuple(placed))


@given(clusters, pods)
def test_without_limits_of_nodes_a_pod_goes_where_its_claims_go(made: tuple[Fleet, Nodes], asking: PodDemand) -> None:
    built, nodes = made
    unlimited = Nodes()
    for name in nodes:
        unlimited.upsert(NodeFacts(name, ready=True, allocatable={"pods": 9 * CPU, "cpu": 9 * CPU}))
    answer, chosen = plan([asking], built, unlimited), place(built, asking.claims)
    if isinstance(answer, Plan):
        assert isinstance(chosen, Placed)
        assert (answer.placements[0].node, answer.placements[0].allocations) == (chosen.node, chosen.allocations)
    else:
        assert chosen == ()
