"""The moves that let a pod or gang run are the best of all sets, and they do let it run."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.advise.movable import Movable, end, movable_pods, price_of
from cli.advise.moves import Moves, NoMoves, Waiting, best_moves
from cli.advise.moves import relocated as relocated_moves
from cli.advise.waiting import waiting_in_turn
from cli.decisions.simulator import Simulator
from cli.decisions.snapshot import ClusterSnapshot, snapshot_of
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from cli.shipped import device_classes
from driver.kube.api import Object
from driver.names import Names
from tests.unit.cli.cluster import GATE, allocated, claim, node, pod, slices, stored

NOW = 1_900_000_000.0
JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def snapshot(objects: Sequence[Object]) -> ClusterSnapshot:
    checked = check([Document(Origin("f", number), obj) for number, obj in enumerate(objects, 1)], "default")
    assert not checked.faults, checked.faults
    return snapshot_of(checked.objects, Names(), device_classes())


def running(
    name: str, place: str, priority: int = 0, created: str = "2027-01-15T08:00:00Z", **more: Any
) -> list[Object]:
    """A pod that runs on a node, and its claim that holds ``node/device``."""
    device_class = "gpu-share.lode.dev" if place.endswith("-share") else "gpu.lode.dev"
    on = place.partition("/")[0]
    spec = {"nodeName": on, "priority": priority, "nodeSelector": more.pop("selector", {})}
    made = stored(pod(name, name, cpu="100m", **spec), created, phase="Running")
    made["metadata"]["ownerReferences"] = JOB
    return [made, allocated(claim(name, device_class), place, name, **more)]


def waiting(name: str, count: int = 1, cpu: str = "100m", **spec: Any) -> list[Object]:
    made = stored(pod(name, name, cpu=cpu, schedulingGates=[{"name": GATE}], **spec), phase="Pending")
    return [made, stored(claim(name, count=count))]


def only_t4(name: str, count: int) -> list[Object]:
    made, _ = waiting(name)
    return [made, stored(claim(name, expression="device.attributes['lode.dev'].type == 'T4'", count=count))]


def nodes(**profiles: str) -> list[Object]:
    found: list[Object] = []
    for name, profile in profiles.items():
        found += [node(name), *slices(name, profile)]
    return found


def first_waiting(taken: ClusterSnapshot) -> Waiting:
    outcomes = Simulator(taken, NOW).pods()
    (found,) = waiting_in_turn(taken.state, [one.key for one in outcomes if not one.placed], NOW)
    return found


def advised(*objects: Object) -> Moves | NoMoves:
    taken = snapshot(objects)
    return best_moves(taken.state, first_waiting(taken), movable_pods(taken.state, taken.pods)[0])


def told(found: Moves | NoMoves) -> dict[str, str]:
    assert isinstance(found, Moves)
    return {move.pod.pod.name: move.target for move in found.moves}


SPREAD = [*nodes(a="t4x2", b="t4x2"), *running("one", "a/gpu-0"), *running("two", "b/gpu-1")]


def test_a_pod_that_needs_two_cards_gets_them_when_one_pod_moves_to_the_other_node() -> None:
    found = advised(*SPREAD, *waiting("large", 2))
    assert told(found) == {"one": "b"}, "of equal pods, that of the first node"
    assert isinstance(found, Moves)
    assert found.places == {"default/large": "a"}
    assert found.moves[0].devices == ("b/lode.dev/gpu-0",)
    assert found.best


def test_the_fewest_cards_move_then_those_of_the_lowest_priority_then_the_youngest() -> None:
    objects = nodes(a="t4x2", b="t4x2", c="a100x4")
    for place in ("a/gpu-0", "a/gpu-1", "b/gpu-0"):
        objects += running(place.replace("/", "-"), place)
    assert told(advised(*objects, *only_t4("large", 2))) == {"b-gpu-0": "c"}, "one card instead of two"
    by_priority = [*SPREAD[:-4], *running("one", "a/gpu-0", priority=5), *running("two", "b/gpu-1", priority=4)]
    assert told(advised(*by_priority, *waiting("large", 2))) == {"two": "a"}
    by_age = [*SPREAD[:-4], *running("one", "a/gpu-0", created="2027-01-15T09:00:00Z"), *running("two", "b/gpu-1")]
    assert told(advised(*by_age, *waiting("large", 2))) == {"one": "b"}


def test_a_pod_that_moves_keeps_its_claims_aligned() -> None:
    first, second = (allocated(claim(f"one-{at}"), f"a/gpu-{at}", "one") for at in range(2))
    asked = {"claim": "c1", "attribute": "resource.kubernetes.io/pcieRoot"}
    placing = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "alignWith": asked}
    first["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": placing}}]
    made, _ = running("one", "a/gpu-0")
    made["spec"]["resourceClaims"] = pod("one", "one-0", "one-1")["spec"]["resourceClaims"]
    taken = snapshot([*nodes(a="t4x2"), made, first, second])
    [found] = movable_pods(taken.state, taken.pods)[0]
    assert [[one.entries for one in again.aligned] for again in found.demand.claims] == [[("c0", "c1")]] * 2


def test_a_pod_that_fits_nowhere_else_has_to_end() -> None:
    assert told(advised(*nodes(a="t4x2"), *running("one", "a/gpu-0"), *waiting("large", 2))) == {"one": ""}


def test_moves_alone_are_better_than_the_end_of_a_pod_with_less() -> None:
    objects = [*nodes(a="t4x2"), node("b", disk="fast"), *slices("b", "t4x2"), *running("card", "a/gpu-0")]
    objects += running("share", "b/gpu-0-share", consumedCapacity={"memory": "1Gi"}, selector={"disk": "fast"})
    assert told(advised(*objects, *only_t4("large", 2))) == {"card": "b"}


def test_nothing_has_to_move_for_what_no_card_of_the_cluster_can_serve() -> None:
    found = advised(*SPREAD, *waiting("large", 3))
    assert found == NoMoves(decided=True)


@pytest.mark.parametrize(("cpu", "moved"), [("1", {"one": "b"}), ("2", {"one": ""})])
def test_a_pod_moves_only_where_its_cpu_fits_as_well(cpu: str, moved: dict[str, str]) -> None:
    objects = nodes(a="t4x2", b="t4x2")
    for name, place, wanted in (("one", "a/gpu-0", "7"), ("two", "b/gpu-1", cpu)):
        made, held = running(name, place)
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = wanted
        objects += [made, held]
    assert told(advised(*objects, *waiting("large", 2, cpu="2"))) == moved


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"labels": {"lode.dev/gang": "ring"}}, "are members of gangs, whose other members need them where they are"),
        (
            {"ownerReferences": [{**JOB[0], "kind": "DaemonSet"}]},
            "belong to a DaemonSet, which runs them on their node",
        ),
    ],
)
def test_who_cannot_move_is_counted_with_the_reason(change: Object, reason: str) -> None:
    objects = [*nodes(a="t4x2"), *running("one", "a/gpu-0")]
    objects[-2]["metadata"] |= change
    taken = snapshot([*objects, *waiting("large", 2)])
    assert movable_pods(taken.state, taken.pods) == ([], {reason: 1})


def test_pods_that_share_a_claim_do_not_move() -> None:
    objects = [*nodes(a="t4x2"), *running("one", "a/gpu-0")]
    second = stored(pod("second", "one", nodeName="a"), phase="Running")
    taken = snapshot([*objects, second, *waiting("large", 2)])
    assert movable_pods(taken.state, taken.pods) == ([], {"share a claim with other pods": 2})


def gang(size: int) -> list[Object]:
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": "ring", "minAvailable": size},
    }
    found = []
    for number in range(size):
        made, wanted = waiting(f"w{number}", 2)
        wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
        found += [made, wanted]
    return found


def test_a_gang_starts_when_enough_pods_move() -> None:
    objects = nodes(a="t4x2", b="t4x2", c="t4x2", d="t4x2")
    for name in "abc":
        objects += running(name, f"{name}/gpu-0")
    found = advised(*objects, *gang(2))
    assert sum(1 for target in told(found).values() if target) == len(told(found)) == 1
    assert isinstance(found, Moves)
    assert len(set(found.places.values())) == 2


# Against trying every set

PLACES = ("a/gpu-0", "a/gpu-1", "b/gpu-0", "b/gpu-1", "c/gpu-0", "c/gpu-0-share")
CLUSTERS = st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=6)


def every_best(taken: ClusterSnapshot, one: Waiting, pods: Sequence[Movable]) -> tuple[float, Any] | None:
    """The price of the best of all sets that let it run and of which no pod can be spared."""
    sufficient: list[frozenset[str]] = []
    prices = []
    for size in range(1, len(pods) + 1):
        for chosen in combinations(pods, size):
            keys = frozenset(pod.key for pod in chosen)
            if any(smaller < keys for smaller in sufficient):
                continue
            with taken.state.cluster.what_if() as trial:
                end(trial, chosen)
                runs = one.places() is not None
            if runs:
                sufficient.append(keys)
                found = relocated_moves(taken.state, one, chosen)
                assert found is not None
                prices.append(found.price)
    return min(prices, default=None)


@settings(max_examples=40)
@given(CLUSTERS, st.integers(1, 2), st.booleans())
def test_the_moves_are_the_best_of_all_sets_and_let_it_run(
    held: list[tuple[str, int, int]], count: int, as_gang: bool
) -> None:
    objects = nodes(a="t4x2", b="t4x2", c="t4x2")
    used = set[str]()
    for number, (place, priority, hour) in enumerate(held):
        card = place.removesuffix("-share")
        if card in used:
            continue
        used.add(card)
        objects += running(f"p{number}", place, priority, f"2027-01-15T0{hour}:00:00Z")
    objects += gang(2) if as_gang else waiting("large", count)
    taken = snapshot(objects)
    outcomes = Simulator(taken, NOW).pods()
    keys = [one.key for one in outcomes if not one.placed]
    if not keys:
        return
    (one,) = waiting_in_turn(taken.state, keys, NOW)
    pods, _ = movable_pods(taken.state, taken.pods)
    before = taken.state.devices.ledger.usage_snapshot()
    found = best_moves(taken.state, one, pods)
    assert taken.state.devices.ledger.usage_snapshot() == before, "nothing is changed"
    expected = every_best(taken, one, pods)
    if isinstance(found, NoMoves):
        assert expected is None
        assert found.decided
        return
    assert found.best
    assert found.price == expected
    moved = {move.pod.pod.name for move in found.moves}
    left = [obj for obj in objects if obj["metadata"]["name"] not in moved]
    again = {one.name: one.placed for one in Simulator(snapshot(left), NOW).pods()}
    assert all(again.values()), "it runs when they are gone"
    assert price_of([move.pod for move in found.moves])
