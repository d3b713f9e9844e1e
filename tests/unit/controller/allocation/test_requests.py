"""What a claim gets for what it asks."""

from dataclasses import replace

import pytest

from driver.model import (
    Capacity,
    Constraint,
    Device,
    DeviceClass,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    OpaqueConfig,
    RequestPolicy,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)
from driver.wire import only_node
from tests.unit.controller.allocation.small_fleets import (
    DRIVER,
    NODE,
    claim,
    device,
    fleet,
    hold,
    memory,
    names,
    pool,
    q,
    refused,
    want,
)

CARDS = [device(f"gpu-{i}", {"numa": i // 2}, capacity={"memory": "80Gi"}) for i in range(4)]


def test_devices_are_taken_in_the_order_of_the_slices() -> None:
    assert names(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want(count=2), want())])) == [
        ["gpu-0", "gpu-1", "gpu-2"]
    ]


def test_an_allocation_of_node_local_devices_names_exactly_that_node_and_has_no_timestamp() -> None:
    (allocation,) = hold(fleet(*pool(*CARDS)), claim(want()))
    assert allocation.nodes == only_node(NODE)
    assert allocation.timestamp == ""


def test_a_device_held_by_one_claim_is_not_given_to_another() -> None:
    built = fleet(*pool(*CARDS))
    hold(built, claim(want(count=3), name="a"))
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["gpu-3"]]
    assert refused(built.allocate(NODE, {}, [claim(want(count=2))])).shortages[0].holders == ("uid-a",)
    built.ledger.forget("uid-a")
    assert names(built.allocate(NODE, {}, [claim(want(count=4))])) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]


def test_all_means_every_matching_device_or_nothing() -> None:
    built = fleet(*pool(*CARDS))
    assert names(built.allocate(NODE, {}, [claim(want(mode="All"))])) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]
    hold(built, claim(want(), name="a"))
    assert not isinstance(built.allocate(NODE, {}, [claim(want(mode="All"))]), tuple)


def test_the_first_alternative_that_fits_is_taken() -> None:
    built = fleet(*pool(*CARDS))
    prioritized = (want(count=9, name="nine"), want("nic", name="nic"), want(count=2, name="two"))
    (allocation,) = hold(built, claim(prioritized))
    assert [result.request for result in allocation.results] == ["r0/two", "r0/two"]


def test_claims_of_one_pod_are_decided_together() -> None:
    built = fleet(*pool(*CARDS))
    first, second = claim(want(count=3), name="a"), claim(want(count=1), name="b")
    assert names(built.allocate(NODE, {}, [first, second])) == [["gpu-0", "gpu-1", "gpu-2"], ["gpu-3"]]
    assert not isinstance(built.allocate(NODE, {}, [first, claim(want(count=2), name="b")]), tuple)


def test_an_earlier_request_gives_way_where_a_later_one_needs_its_device() -> None:
    cards = [device("both", {"fast": True}), device("plain", {"fast": False})]
    picky = want("gpu", 'device.attributes["lode.dev"].fast')
    assert names(fleet(*pool(*cards)).allocate(NODE, {}, [claim(want(), picky)])) == [["plain", "both"]]


def test_match_attribute_takes_devices_that_agree() -> None:
    constraint = Constraint((), "lode.dev/numa")
    built = fleet(*pool(*CARDS))
    hold(built, claim(want(), name="a"))
    assert names(built.allocate(NODE, {}, [claim(want(count=2), constraints=(constraint,))])) == [["gpu-2", "gpu-3"]]


def test_distinct_attribute_takes_devices_that_differ() -> None:
    constraint = Constraint(("r0",), "", "lode.dev/numa")
    built = fleet(*pool(*CARDS))
    assert names(built.allocate(NODE, {}, [claim(want(count=2), constraints=(constraint,))])) == [["gpu-0", "gpu-2"]]


def test_a_whole_card_and_its_partitions_exclude_each_other() -> None:
    whole = device("gpu-0", draws={"card.slices": 7})
    parts = [device(f"mig-{i}", {"kind": "mig"}, draws={"card.slices": 3}) for i in range(3)]
    built = fleet(*pool(whole, *parts, sets={"card": {"slices": 7}}))
    hold(built, claim(want("mig"), name="a"), claim(want("mig"), name="b"))
    answer = refused(built.allocate(NODE, {}, [claim(want("mig"))]))
    assert "blocked by counter slices" in answer.sentences[0]
    assert not isinstance(built.allocate(NODE, {}, [claim(want("gpu"))]), tuple)
    built.ledger.forget("uid-a")
    built.ledger.forget("uid-b")
    assert names(built.allocate(NODE, {}, [claim(want("gpu"))])) == [["gpu-0"]]


def shared_card(**capacity: Capacity) -> Device:
    return device("gpu-0-share", {"kind": "share"}, capacity=capacity, shared=True, draws={"card.card": 1})


def test_shares_fill_a_card_to_its_capacity_and_no_further() -> None:
    card = shared_card(memory=memory("10Gi"))
    built = fleet(*pool(card, device("gpu-0", draws={"card.card": 1}), sets={"card": {"card": 1}}))
    asking = want("share", capacity={"memory": "4Gi"})
    kept = hold(built, claim(asking, name="a"), claim(asking, name="b"))
    assert len({result.share_id for allocation in kept for result in allocation.results}) == 2
    assert kept[0].results[0].consumed == {"memory": q("4Gi")}
    answer = refused(built.allocate(NODE, {}, [claim(asking)]))
    assert "with too little memory left" in answer.sentences[0]
    assert not isinstance(built.allocate(NODE, {}, [claim(want("gpu"))]), tuple)
    hold(built, claim(want("share", capacity={"memory": "2Gi"}), name="c"))


def test_the_same_decision_gives_the_same_share_id() -> None:
    built = fleet(*pool(shared_card(memory=memory("10Gi")), sets={"card": {"card": 1}}))
    asking = claim(want("share", capacity={"memory": "4Gi"}), want("share", capacity={"memory": "4Gi"}))
    assert built.allocate(NODE, {}, [asking]) == built.allocate(NODE, {}, [asking])
    (allocation,) = hold(built, asking)
    assert len({result.share_id for result in allocation.results}) == 2


POLICIES = (
    (memory("10Gi", "2Gi"), None, "2Gi"),
    (memory("10Gi", "2Gi"), "100", "1Mi"),
    (memory("10Gi", "2Gi"), "1048577", "2Mi"),
    (memory("10Gi", "2Gi"), "10Gi", "10Gi"),
    (memory("10Gi", "2Gi"), "11Gi", None),
    (Capacity(q("8")), None, "8"),
    (Capacity(q("8")), "3", "3"),
    (Capacity(q("8"), RequestPolicy(q("2"), (q("2"), q("4"), q("8")))), "3", "4"),
    (Capacity(q("8"), RequestPolicy(q("2"), (q("2"), q("4")))), "5", None),
    (Capacity(q("8")), "-1", None),
)


@pytest.mark.parametrize(("capacity", "asked", "taken"), POLICIES)
def test_what_a_share_takes_follows_the_request_policy(
    capacity: Capacity, asked: str | None, taken: str | None
) -> None:
    built = fleet(*pool(shared_card(memory=capacity), sets={"card": {"card": 1}}))
    answer = built.allocate(NODE, {}, [claim(want("share", capacity={"memory": asked} if asked else {}))])
    if taken is None:
        assert not isinstance(answer, tuple)
    else:
        assert isinstance(answer, tuple)
        assert answer[0].results[0].consumed == {"memory": q(taken)}


def test_a_capacity_the_device_lacks_is_not_granted() -> None:
    built = fleet(*pool(*CARDS))
    assert names(built.allocate(NODE, {}, [claim(want(capacity={"memory": "80Gi"}))])) == [["gpu-0"]]
    for asked, why in (({"memory": "81Gi"}, "too small"), ({"bandwidth": "1"}, "without capacity")):
        assert why in refused(built.allocate(NODE, {}, [claim(want(capacity=asked))])).sentences[0]


def test_admin_access_needs_no_free_device_and_takes_nothing() -> None:
    built = fleet(*pool(*CARDS[:1]))
    hold(built, claim(want(), name="a"))
    (allocation,) = hold(built, claim(want(admin=True), name="admin"))
    assert allocation.results[0].admin_access
    built.ledger.forget("uid-a")
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["gpu-0"]]
    of_one_pod = [claim(want(admin=True), name="b"), claim(want(), name="c")]
    assert names(built.allocate(NODE, {}, of_one_pod)) == [["gpu-0"], ["gpu-0"]]


def test_admin_access_to_a_shareable_device_is_a_share_that_takes_nothing() -> None:
    """The result looks like any share's (the API tells shares of one device by their id); nothing is counted for it."""
    built = fleet(*pool(shared_card(memory=memory("10Gi")), sets={"card": {"card": 1}}))
    hold(built, claim(want("share", capacity={"memory": "10Gi"}), name="a"))
    (allocation,) = hold(built, claim(want("share", admin=True), want("share", admin=True), name="admin"))
    assert all(result.share_id and result.admin_access for result in allocation.results)
    built.ledger.forget("uid-a")
    hold(built, claim(want("share", capacity={"memory": "10Gi"}), name="b"))


def test_admin_access_needs_no_free_counters() -> None:
    built = fleet(*pool(device("gpu-0", draws={"card.units": 2}), sets={"card": {"units": 1}}))
    assert not isinstance(built.allocate(NODE, {}, [claim(want())]), tuple)
    assert names(built.allocate(NODE, {}, [claim(want(admin=True))])) == [["gpu-0"]]


def test_a_tainted_device_goes_only_to_who_tolerates_it() -> None:
    taint = Taint("broken", "yes", "NoExecute")
    built = fleet(*pool(replace(CARDS[0], taints=(taint,))))
    assert "tainted broken=yes:NoExecute" in refused(built.allocate(NODE, {}, [claim(want())])).sentences[0]
    toleration = Toleration("broken", "Exists")
    (allocation,) = hold(built, claim(want(tolerations=(toleration,))))
    assert allocation.results[0].tolerations == (toleration,)


def test_a_taint_rule_holds_while_it_exists_and_only_for_what_it_selects() -> None:
    built = fleet(*pool(*CARDS[:2]))
    rule = TaintRule("rule", Taint("maintenance"), True, device="gpu-0")
    built.ledger.upsert_taint_rule(rule)
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["gpu-1"]]
    built.ledger.upsert_taint_rule(replace(rule, selects=False))
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["gpu-0"]]
    built.ledger.upsert_taint_rule(replace(rule, taint=Taint("note", "", "None")))
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["gpu-0"]]
    built.ledger.upsert_taint_rule(replace(rule, device=""))
    built.ledger.remove_taint_rule("rule")
    assert names(built.allocate(NODE, {}, [claim(want(count=2))])) == [["gpu-0", "gpu-1"]]


def test_a_selector_is_not_asked_about_a_device_that_the_pod_has_got_already() -> None:
    built = fleet(*pool(device("gpu-0"), device("gpu-1", {"fast": True})))
    fast = f'device.attributes["{DRIVER}"].fast'
    assert names(built.allocate(NODE, {}, [claim(want(), want("any", fast))])) == [["gpu-0", "gpu-1"]]
    assert not isinstance(built.allocate(NODE, {}, [claim(want("any", fast))]), tuple)


def test_an_alternative_whose_selector_fails_on_a_device_is_not_passed_over() -> None:
    """Even if it had too few devices anyway: whoever looks for them comes to the one on which it fails."""
    failing = want("any", f'device.attributes["{DRIVER}"].fast', count=9, name="failing")
    asked = claim((want(count=9, name="many"), failing, want(name="one")))
    assert "fast" in " ".join(refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [asked])).sentences)


def test_binding_conditions_are_copied_and_such_pools_come_last() -> None:
    slow = device("slow", binding_conditions=("Ready",), binding_failure_conditions=("Failed",))
    built = fleet(*pool(slow, driver="a.example.com"), *pool(*CARDS[:1]))
    built.upsert_class(DeviceClass("any"))
    (allocation,) = hold(built, claim(want("any", count=2)))
    assert [result.device.device for result in allocation.results] == ["gpu-0", "slow"]
    assert allocation.results[1].binding_conditions == ("Ready",)
    assert allocation.results[1].binding_failure_conditions == ("Failed",)


def test_devices_of_selected_nodes_keep_the_selector() -> None:
    region = NodeSelector((NodeSelectorTerm((NodeRequirement("region", "In", ("eu",)),)),))
    built = fleet(Slice("s", "net.example.com", "net", 1, 1, NodeScope(selector=region), (device("nic"),)))
    built.ledger.upsert_slice(Slice("t", "all.example.com", "all", 1, 1, NodeScope(all_nodes=True), (device("any"),)))
    answer = built.allocate(NODE, {"region": "eu"}, [claim(want("any", 'device.driver == "net.example.com"'))])
    assert isinstance(answer, tuple)
    assert answer[0].nodes == region
    answer = built.allocate(NODE, {"region": "us"}, [claim(want("any"))])
    assert isinstance(answer, tuple)
    assert answer[0].nodes is None
    assert not isinstance(built.allocate(NODE, {"region": "us"}, [claim(want("any", count=2))]), tuple)


def test_an_unfinished_pool_of_other_nodes_does_not_stop_a_request_for_all_devices() -> None:
    elsewhere = NodeSelector((NodeSelectorTerm((NodeRequirement("region", "In", ("us",)),)),))
    built = fleet(*pool(*CARDS[:2]))
    unfinished = Slice("s", "net.example.com", "net", 1, 2, NodeScope(selector=elsewhere), (device("nic"),))
    built.ledger.upsert_slice(unfinished)
    assert names(built.allocate(NODE, {"region": "eu"}, [claim(want(mode="All"))])) == [["gpu-0", "gpu-1"]]
    assert not isinstance(built.allocate(NODE, {"region": "us"}, [claim(want(mode="All"))]), tuple)


def test_hundreds_of_devices_for_one_pod_are_decided_without_a_crash() -> None:
    built = fleet(*pool(*[device(f"gpu-{i:03}", {"v": i % 2}) for i in range(640)]))
    asked = [claim(want(count=32), name=f"c{i}") for i in range(20)]
    assert isinstance(built.allocate(NODE, {}, asked), tuple)
    assert not isinstance(built.allocate(NODE, {}, [*asked, claim(want(), name="more")]), tuple)


def test_devices_of_a_slice_may_say_themselves_which_node_reaches_them() -> None:
    here, there = device("here", scope=NodeScope(NODE)), device("there", scope=NodeScope("n2"))
    built = fleet(Slice("s", "lode.dev", "p", 1, 1, NodeScope(per_device=True), (there, here)))
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["here"]]


def test_configuration_of_the_class_comes_before_that_of_the_claim() -> None:
    built = fleet(*pool(*CARDS))
    of_class = OpaqueConfig("lode.dev", {"from": "class"})
    built.upsert_class(DeviceClass("gpu", (), (of_class,)))
    of_claim = OpaqueConfig("lode.dev", {"from": "claim"}, ("r1",))
    other = OpaqueConfig("lode.dev", {"from": "nobody"}, ("r9",))
    (allocation,) = hold(built, claim(want(), want("any"), config=(of_claim, other)))
    assert allocation.config == (
        replace(of_class, source="FromClass", requests=("r0",)),
        replace(of_claim, source="FromClaim"),
    )


def test_devices_of_several_drivers_serve_one_claim() -> None:
    nic = Device("nic-0", {"lode.dev/kind": "nic"})
    built = fleet(*pool(*CARDS[:1]), *pool(nic, driver="net.example.com"))
    assert names(built.allocate(NODE, {}, [claim(want("gpu"), want("any", 'device.driver == "net.example.com"'))])) == [
        ["gpu-0", "nic-0"]
    ]
