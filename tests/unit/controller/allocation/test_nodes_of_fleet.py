"""Which nodes a fleet asks about a claim: those that could have the devices, and those that came later."""

from controller.placement import Placed, place
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, fleet, most_placed, pool, want

NODES = ["n1", "n2", "n3"]
SIZE = f'device.attributes["{DRIVER}"].size >= 2'


def test_only_eligible_nodes_are_chosen_and_only_those_that_could_are_asked_about() -> None:
    built = fleet(
        *pool(device("a"), node="n1"), *pool(device("a", {"kind": "nic"}), node="n2"), *pool(device("a"), node="n3")
    )
    for node in NODES:
        built.ledger.upsert_node(node, {})
    seen: list[str] = []

    def eligible(node: str) -> bool:
        seen.append(node)
        return node == "n3"

    placed = place(built, [claim(want())], eligible)
    assert isinstance(placed, Placed)
    assert (placed.node, seen) == ("n3", ["n1", "n3"])


def test_devices_of_several_pools_of_a_node_count_together() -> None:
    built = fleet(*pool(device("a"), node="n1"), *pool(device("a"), node="n2"))
    for part in pool(device("b"), node="n2", driver="other.dev"):
        built.ledger.upsert_slice(part)
    for node in NODES:
        built.ledger.upsert_node(node, {})
    placed = place(built, [claim(want(count=2))])
    assert isinstance(placed, Placed)
    assert placed.node == "n2"
    assert most_placed(built, [claim(want(count=2))]) == {"n2": 1}


def test_a_node_that_a_faulty_device_kept_from_the_claim_takes_it_once_that_device_is_in_use() -> None:
    built = fleet(*pool(device("a"), device("b", {"size": 2}), node="n1"))
    built.ledger.upsert_node("n1", {})
    pod = [claim(want("any", SIZE))]
    assert place(built, pod) == ()
    taken = place(built, [claim(want())])
    assert isinstance(taken, Placed)
    built.ledger.assume("u", taken.allocations[0])
    placed = place(built, pod)
    assert isinstance(placed, Placed)
    assert placed.allocations[0].results[0].device.device == "b"


def test_a_node_that_comes_later_is_tried_in_its_place() -> None:
    built = fleet(*[part for node in NODES for part in pool(device("a"), node=node)])
    pod = [claim(want())]
    found = []
    for node in ("n3", "n1", "n2"):
        built.ledger.upsert_node(node, {})
        placed = place(built, pod)
        assert isinstance(placed, Placed)
        found.append(placed.node)
        built.ledger.assume(f"u-{node}", placed.allocations[0])
    assert found == ["n3", "n1", "n2"]
    built.ledger.remove_claim("u-n3")
    built.ledger.remove_claim("u-n2")
    placed = place(built, pod)
    assert isinstance(placed, Placed)
    assert placed.node == "n2"


def test_a_node_that_comes_keeps_no_other_from_claims_that_were_asked_for_beside() -> None:
    built = fleet(
        *[part for node in NODES for part in pool(device("a"), node=node)], *pool(device("b"), node="n3", driver="p")
    )
    of_p = [claim(want("any", 'device.driver == "p"'))]
    for nodes_now in (("n2", "n3"), ("n1",)):
        for node in nodes_now:
            built.ledger.upsert_node(node, {})
        place(built, [claim(want())], other_drivers_claims=of_p)
    placed = place(built, of_p)
    assert isinstance(placed, Placed)
    assert placed.node == "n3"


def test_claims_that_are_wrong_as_written_are_refused_for_all_nodes() -> None:
    built = fleet(*pool(device("a")))
    built.ledger.upsert_node("n1", {})
    answer = place(built, [claim(want("missing"))])
    assert isinstance(answer, tuple)
    assert answer
    assert most_placed(built, [claim(want("missing"))]) == {}
