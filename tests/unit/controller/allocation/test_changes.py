"""What was learnt about nodes and requests follows nodes that arrive and classes that change."""

from dataclasses import replace

import pytest

from controller.allocation import Fleet
from controller.placement import Placed, place
from driver.model import Claim, Constraint, Device, DeviceClass, NodeScope, Taint
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, fleet, memory, most_placed, pool, want

V = f"{DRIVER}/v"


def node_of(built: Fleet, pod: list[Claim]) -> str | None:
    placed = place(built, pod)
    return placed.node if isinstance(placed, Placed) else None


CARD = device("card")
SHARED = device("share", {"kind": "share"}, capacity={"memory": memory("8Gi", "1Gi")}, shared=True)
TWO_SHARES = [claim(want("share"), want("share"))]


@pytest.mark.parametrize(("published", "pod"), [(CARD, [claim(want())]), (SHARED, TWO_SHARES)])
@pytest.mark.parametrize("arrives", ["n0", "n2"])
def test_a_node_without_devices_that_arrives_leaves_the_others_as_they_were(
    published: Device, pod: list[Claim], arrives: str
) -> None:
    built = fleet(*pool(published, node="n1"))
    built.ledger.upsert_node("n1", {})
    assert node_of(built, pod) == "n1"
    built.ledger.upsert_node(arrives, {})
    assert node_of(built, pod) == "n1"


def test_what_was_learnt_about_a_node_stays_with_it_when_another_arrives_before_it() -> None:
    """The node without room is known as such; the one between must not be taken for it."""
    built = fleet(*pool(CARD, node="n1"), *pool(replace(CARD, taints=(Taint("t"),)), node="n2"))
    for node in ("n1", "n2"):
        built.ledger.upsert_node(node, {})
    pod = [claim(want())]
    assert place(built, pod, lambda node: node == "n2") == ()
    built.ledger.upsert_node("n0", {})
    assert node_of(built, pod) == "n1"


def test_one_shareable_device_that_every_node_reaches_serves_several_requests() -> None:
    parts = [replace(part, name=f"all-{part.name}", scope=NodeScope(all_nodes=True)) for part in pool(SHARED, node="x")]
    built = fleet(*parts)
    built.ledger.upsert_node("n1", {})
    assert node_of(built, TWO_SHARES) == "n1"


def test_a_class_that_changes_changes_what_is_allocated() -> None:
    built = fleet(*pool(CARD, device("nic", {"kind": "nic"}), node="n1"))
    built.ledger.upsert_node("n1", {})
    pod = [claim(want())]
    first = place(built, pod)
    built.upsert_class(DeviceClass("gpu", (f'device.attributes["{DRIVER}"].kind == "nic"',)))
    second = place(built, pod)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    devices = [placed.allocations[0].results[0].device.device for placed in (first, second)]
    assert devices == ["card", "nic"]


def test_a_node_is_not_taken_for_another_that_differs_only_in_taints() -> None:
    """How often the first node has room says nothing about the second."""
    cards = [device("x", {"v": 1}), device("a", {"v": 0}), device("b", {"v": 0})]
    tainted = [*cards[:2], replace(cards[2], taints=(Taint("t"),))]
    built = fleet(*pool(*tainted, node="n1"), *pool(*cards, node="n2"))
    for node in ("n1", "n2"):
        built.ledger.upsert_node(node, {})
    assert most_placed(built, [claim(want(), want(), constraints=(Constraint((), V),))]) == {"n2": 1}
