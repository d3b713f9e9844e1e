"""A fleet can be told to take in all events before the first question. That changes no answer."""

from dataclasses import replace

from controller.allocation import Fleet
from driver.model import DeviceClass, DeviceId
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, hold, names, pool, want


def indexed() -> Fleet:
    made = fleet(*pool(device("gpu-0"), device("gpu-1"), device("nic-0", {"kind": "nic"})))
    made.ledger.upsert_node("n1", {})
    made.index()
    return made


def test_what_is_asked_after_indexing_is_answered_as_without() -> None:
    asked = claim(want("nic"), want("gpu", count=2))
    assert names(indexed().allocate("n1", {}, [asked])) == [["nic-0", "gpu-0", "gpu-1"]]


def test_what_happens_after_indexing_is_seen() -> None:
    made = indexed()
    for part in pool(device("gpu-7"), node="n2"):
        made.ledger.upsert_slice(part)
    made.ledger.upsert_node("n2", {})
    hold(made, claim(want(count=2), name="other"))
    assert names(made.allocate("n2", {}, [claim(want())])) == [["gpu-7"]]
    assert DeviceId("lode.dev", "n1/lode.dev", "gpu-0") in made.ledger.usage_snapshot()
    made.index()
    assert not isinstance(made.allocate("n1", {}, [claim(want())]), tuple)


def test_a_card_that_moves_to_another_fabric_after_indexing_is_seen_there() -> None:
    made = fleet(*pool(device("gpu-0", {"ibCluster": "a"})))
    made.ledger.upsert_node("n1", {})
    made.index()
    for part in pool(device("gpu-0", {"ibCluster": "b"})):
        made.ledger.upsert_slice(replace(part, generation=part.generation + 1))
    found = made.node_devices(made.slot("n1", {}), (), ("lode.dev/ibCluster",))
    assert found.values == {("b",)}


def test_a_class_that_does_not_compile_is_told_to_whoever_asks_for_it() -> None:
    made = indexed()
    made.upsert_class(DeviceClass("broken", ("device.",)))
    made.index()
    answer = made.compile([claim(want("broken"))])
    assert isinstance(answer, tuple)
    assert "broken" in str(answer[0])
