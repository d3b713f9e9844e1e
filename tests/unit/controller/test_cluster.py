"""A question changes a cluster on trial; afterwards all is as before, the versions, too, and so are the answers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import CompiledRequest
from controller.cluster import Cluster, WhatIf
from controller.placement import Needs, NodeFacts, Nodes, Placed, Placement, PodDemand, PodLabels, place
from controller.placement.needs import HostPort, PodSelector, PodTerm, VolumeUse
from controller.quotas import Quota, QuotaLedger
from driver.label_selectors import LabelSelector
from driver.model import Allocation, Claim, NodeRequirement, NodeScope, Slice
from driver.names import Names
from driver.quantity import Quantity
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, memory, pool, want
from tests.unit.controller.everything import everything

CPU = Quantity.parse("1").nanos
NODES = ("n1", "n2", "gone")
"""Nobody knows the last one but a pod that counts there."""
PODS = ("p0", "p1", "p2", "p3")
APART = PodTerm(PodSelector(frozenset({"ns"}), LabelSelector((NodeRequirement("app", "In", ("a",)),))), "host")
NEEDS = (
    Needs({"cpu": CPU}),
    Needs({"cpu": 2 * CPU}, (HostPort("TCP", "0.0.0.0", 80),), priority=5),
    Needs({}, pod=PodLabels("ns", (("app", "a"),)), pod_anti_affinity=(APART,)),
    Needs({"cpu": CPU}, volumes=(VolumeUse("ns/data"),)),
)
WANTED = (want("gpu"), want("share", capacity={"memory": "1Gi"}), want("mig"), want("nic"), want("gpu", count=2))


def cards(node: str) -> Iterator[Slice]:
    """Two cards, each offered whole, shared and in parts."""
    devices = [
        one
        for card in range(2)
        for one in (
            device(f"{node}-gpu-{card}", draws={f"c{card}.u": 2}),
            device(
                f"{node}-share-{card}",
                {"kind": "share"},
                draws={f"c{card}.u": 2},
                capacity={"memory": memory("4Gi", "1Gi")},
                shared=True,
            ),
            device(f"{node}-mig-{card}", {"kind": "mig"}, draws={f"c{card}.u": 1}),
        )
    ]
    yield from pool(*devices, sets={"c0": {"u": 2}, "c1": {"u": 2}}, node=node)


def full() -> Cluster:
    """Nodes with cards and a device that all of them reach; pods with claims, and room that is kept for one."""
    devices, nodes = fleet(), Nodes()
    for name in NODES[:2]:
        devices.ledger.upsert_node(name, {"host": name})
        for part in cards(name):
            devices.ledger.upsert_slice(part)
        allocatable = {"cpu": 8 * CPU, "pods": 10 * CPU}
        nodes.upsert(NodeFacts(name, ready=True, labels={"host": name}, allocatable=allocatable))
    for part in pool(device("nic", {"kind": "nic"}), device("nic-2", {"kind": "nic"}), node="all"):
        devices.ledger.upsert_slice(replace(part, scope=NodeScope(all_nodes=True)))
    quotas = QuotaLedger(Names(), devices.ledger.published_device)
    quotas.upsert(Quota("ns/q", "u", {"cores": 400 * CPU}), ())
    for number, name in enumerate(PODS):
        made = claim(WANTED[number % 4], name=name)
        found = place(devices, [made])
        assert isinstance(found, Placed)
        held = replace(made, allocation=found.allocations[0])
        if number % 2:
            devices.ledger.upsert_claim(made)
            devices.ledger.assume(made.uid, found.allocations[0])
        else:
            devices.ledger.upsert_claim(held)
        quotas.count(held.key, held.allocation)
        nodes.count(f"ns/{name}", NEEDS[number], NODES[number % 3])
    quotas.keep("ns/waits", [Allocation(())])
    return Cluster(devices, nodes, quotas)


def demand(number: int) -> PodDemand:
    """A pod that may want the devices of one that counts already."""
    name = (*PODS, "new")[number % 5]
    return PodDemand(f"ns/{name}", NEEDS[number % 4], (claim(WANTED[number % 5], name=name),))


Act = tuple[str, int]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["remove", "schedule", "add", "end", "keep", "undo", "nest", "look"]), st.integers(0, 59)
    ),
    max_size=12,
)


def perform(cluster: Cluster, trial: WhatIf, acts: list[Act]) -> None:
    """Make these changes, of which some are undone at once, and some are made in a question inside of this one."""
    depths = [trial.depth]
    for at, (what, number) in enumerate(acts):
        match what:
            case "remove":
                name = PODS[number % 4]
                trial.remove([f"ns/{name}", "ns/nobody"], [f"uid-{name}", "uid-nobody"])
            case "schedule":
                trial.schedule(demand(number))
            case "add":
                trial.add_pod("ns/extra", NEEDS[number % 4], (*NODES, "never")[number % 4])
            case "end":
                found = trial.schedule(demand(number))
                for one in found.allocations if isinstance(found, Placement) else ():
                    trial.stop_using(demand(number).claims[0].uid, one)
            case "keep":
                trial.keep_nothing_for(("ns/waits", "ns/nobody")[number % 2])
            case "undo":
                trial.undo(depths[number % len(depths)])
                depths = [depth for depth in depths if depth <= trial.depth]
            case "nest":
                before = everything(cluster)
                with cluster.what_if() as inner:
                    perform(cluster, inner, acts[at + 1 :])
                assert everything(cluster) == before
            case _:
                answers(cluster)
        depths.append(trial.depth)


def answers(cluster: Cluster) -> object:
    """What pods would get now. Asking fills memories."""
    devices, asked = cluster.devices, [claim(one) for one in WANTED]
    found: list[object] = [place(devices, [one]) for one in asked]
    for one in asked:
        request = devices.compile([one])
        assert isinstance(request, CompiledRequest)
        for node in NODES[:2]:
            slot = devices.slot(node, {"host": node})
            found += [devices.fit(slot, request, [one]), devices.score(slot, request), devices.most_fits(slot, request)]
    return found


@settings(max_examples=60, deadline=None)
@given(ACTS, ACTS)
def test_after_any_changes_and_their_end_state_versions_and_answers_are_as_before(
    acts: list[Act], later: list[Act]
) -> None:
    cluster = full()
    said, before = answers(cluster), everything(cluster)
    with cluster.what_if() as trial:
        perform(cluster, trial, acts)
    assert everything(cluster) == before
    assert answers(cluster) == said
    with cluster.what_if() as trial:
        perform(cluster, trial, later)
    assert everything(cluster) == before
    assert answers(cluster) == said


@settings(max_examples=25, deadline=None)
@given(ACTS)
def test_a_block_that_is_entered_again_has_what_it_had(acts: list[Act]) -> None:
    cluster = full()
    before = everything(cluster)
    with cluster.what_if() as trial:
        perform(cluster, trial, acts)
        inside = _without_versions(everything(cluster))
    with trial:
        assert _without_versions(everything(cluster)) == inside
    assert everything(cluster) == before


def _without_versions(found: dict[str, object]) -> object:
    """What two blocks with the same changes have in common: versions on trial never come again."""
    return {name: value for name, value in found.items() if "versions" not in name and name != "clocks"}


@settings(max_examples=60, deadline=None)
@given(ACTS, st.integers(0, 3))
def test_what_was_learnt_on_trial_is_not_taken_for_true_afterwards(acts: list[Act], number: int) -> None:
    cluster, fresh = full(), full()
    with cluster.what_if() as trial:
        perform(cluster, trial, [*acts, ("look", 0)])
    for one in (cluster, fresh):
        one.devices.ledger.remove_claim(f"uid-{PODS[number]}")
        one.nodes.discount(f"ns/{PODS[number]}")
    assert answers(cluster) == answers(fresh)


def test_an_error_undoes_everything() -> None:
    cluster = full()
    before = everything(cluster)

    def ask() -> None:
        with cluster.what_if() as trial:
            trial.remove(["ns/p0"], ["uid-p0"])
            trial.schedule(demand(0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask()
    assert everything(cluster) == before


def test_who_is_gone_is_not_removed_twice() -> None:
    cluster = full()
    with cluster.what_if() as trial:
        trial.remove(["ns/p0"], ["uid-p0"])
        without = _without_versions(everything(cluster))
        with cluster.what_if() as inner:
            inner.remove(["ns/p0"], ["uid-p0"])
            assert inner.depth == 0
            assert _without_versions(everything(cluster)) == without


def test_the_same_pod_may_be_placed_repeatedly_and_counts_each_time() -> None:
    cluster = full()
    with cluster.what_if() as trial:
        trial.remove([f"ns/{name}" for name in PODS], [f"uid-{name}" for name in PODS])
        asked = PodDemand("ns/p0", Needs({"cpu": 3 * CPU}), (_one_card(),))
        found = [trial.schedule(asked) for _ in range(5)]
    assert [one.node if isinstance(one, Placement) else "" for one in found] == ["n1", "n1", "n2", "n2", ""]


def _one_card() -> Claim:
    return claim(want("gpu"), name="p0")
