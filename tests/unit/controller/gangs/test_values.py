"""Members with the same rails, one type of card, or rails of their own; and what is said when that is not possible."""

from collections.abc import Sequence
from dataclasses import replace

from controller.gangs import Gang, GangPlan, TriedDomains, ValueConstraint, render
from controller.refusal import Refusal
from driver.model import Claim, Constraint
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import CLUSTER, Host, devices_of, domain_of, gang, member, members, standing
from tests.unit.controller.gangs.deciding import A, B, Decide

RAIL, TYPE = f"{DRIVER}/rail", f"{DRIVER}/type"
SAME_RAILS = ValueConstraint(RAIL, "sameSet")
PREFERRED_RAILS = replace(SAME_RAILS, required=False)
ONE_TYPE = ValueConstraint(TYPE, "same")
OWN_RAIL = ValueConstraint(RAIL, "distinct")


def box(name: str, rails: str, labels: dict[str, str] | None = None, nics: str = "", kind: str = "H100") -> Host:
    """A node with a card on each of the rails, and an adapter of a driver that names rails, too, on each of ``nics``.
    A rail of "-" is not known."""
    cards = [device(f"gpu-{rail}", {"rail": rail.replace("-", ""), "type": kind}) for rail in rails]
    adapters = [device(f"nic-{rail}", {"kind": "nic", "rail": rail}) for rail in nics]
    return Host(name, labels or {}, devices=(*cards, *adapters))


def asks(some: Sequence[object], *constraints: ValueConstraint, **fields: object) -> Gang:
    return replace(gang(some, **fields), constraints=constraints)  # type: ignore[arg-type]


def rails_of(answer: GangPlan | Refusal[TriedDomains]) -> list[str]:
    """The rails of each member's devices."""
    assert isinstance(answer, GangPlan), render(answer)
    return [
        "".join(sorted(result.device.device[4:] for one in placement.allocations for result in one.results))
        for placement in answer.placements
    ]


def said(answer: GangPlan | Refusal[TriedDomains]) -> str:
    assert isinstance(answer, Refusal), answer
    return render(answer)


def test_all_members_get_the_same_rails(decide: Decide) -> None:
    cluster = [box("n1", "0123"), box("n2", "12"), box("n3", "012")]
    answer = decide(cluster, asks(members(3, count=2), SAME_RAILS))
    assert rails_of(answer) == ["12", "12", "12"]
    assert isinstance(answer, GangPlan)
    assert {placement.node for placement in answer.placements} == {"n1", "n2", "n3"}


def test_adapters_count_in_whatever_claim_they_are(decide: Decide) -> None:
    cluster = [box("n1", "01", nics="1"), box("n2", "12", nics="1")]
    beside = [member(rank, claim(want(), name=f"c{rank}"), claim(want("nic"), name=f"n{rank}")) for rank in range(2)]
    assert rails_of(decide(cluster, asks(beside, SAME_RAILS))) == ["11", "11"]
    together = [member(rank, _on_one_rail(f"c{rank}")) for rank in range(2)]
    assert rails_of(decide(cluster, asks(together, SAME_RAILS))) == ["11", "11"]


def _on_one_rail(name: str) -> Claim:
    return claim(want(), want("nic"), constraints=(Constraint(("r0", "r1"), RAIL),), name=name)


def test_a_refusal_names_the_rail_and_the_nodes_where_it_is_missing(decide: Decide) -> None:
    cluster = [box("n1", "01"), box("n2", "02"), box("n3", "01")]
    answer = decide(cluster, asks(members(3, count=2), SAME_RAILS))
    assert said(answer) == (
        f"2 of 3 members fit in the cluster (devices on 2 nodes, {RAIL} 1 on 1 node); "
        f"sameSet {RAIL}: 0 and 1, which most members can get; not free are 1 on n2"
    )


def test_without_the_constraint_nothing_is_said_of_it(decide: Decide) -> None:
    cluster = [box("n1", "01"), box("n2", "02")]
    assert said(decide(cluster, asks(members(3, count=2), SAME_RAILS))) == said(
        decide(cluster, asks(members(3, count=2)))
    )


def test_an_unknown_rail_is_like_no_other(decide: Decide) -> None:
    cluster = [box("n1", "0-"), box("n2", "0-")]
    assert rails_of(decide(cluster, asks(members(2), SAME_RAILS))) == ["0", "0"]
    assert "0 of 2 members fit" in said(decide(cluster, asks(members(2, count=2), SAME_RAILS)))


def test_an_attribute_that_no_device_has_is_told(decide: Decide) -> None:
    wrong = ValueConstraint(f"{DRIVER}/rial", "sameSet")
    text = said(decide([box("n1", "01")], asks(members(2), wrong)))
    assert f"sameSet {DRIVER}/rial: no device that the members ask for has this attribute" in text


def test_members_without_such_devices_are_not_concerned(decide: Decide) -> None:
    cluster = [box("n1", "01"), Host("n2", devices=(device("plain", {"kind": "nic"}),))]
    launcher = member(0, claim(want("nic"), name="l"), leader=True)
    stands = (standing(1, cluster, "n1", "gpu-0"),)
    assert isinstance(decide(cluster, asks([launcher], SAME_RAILS, minimum=2, standing=stands)), GangPlan)
    assert rails_of(decide(cluster, asks([launcher, member(1), member(2, count=0)], SAME_RAILS)))[1:] == ["0", ""]


def test_members_that_have_their_place_say_which_rails(decide: Decide) -> None:
    cluster = [box("n1", "0123"), box("n2", "0123"), box("n3", "012")]
    stands = (standing(0, cluster, "n1", "gpu-2", "gpu-3"),)
    again = asks([member(1, count=2)], SAME_RAILS, minimum=2, standing=stands)
    assert devices_of(decide(cluster, again)) == ["n2/gpu-2", "n2/gpu-3"]
    full = [cluster[0], cluster[2]]
    assert "2 and 3, as members that have their place have; not free are 2 and 3 on n1, 3 on n3" in said(
        decide(full, again)
    )


def test_members_that_have_different_rails_already_let_nobody_in_unless_it_is_preferred(decide: Decide) -> None:
    cluster = [box("n1", "0123"), box("n2", "0123")]
    stands = (standing(0, cluster, "n1", "gpu-0"), standing(1, cluster, "n1", "gpu-1"))
    answer = decide(cluster, asks([member(2)], SAME_RAILS, minimum=3, standing=stands))
    assert f"sameSet {RAIL}: members that have their place have 0 and 1" in said(answer)
    rather = asks([member(2)], PREFERRED_RAILS, minimum=3, standing=stands)
    assert isinstance(decide(cluster, rather), GangPlan)


def test_a_member_beyond_the_minimum_gets_the_rails_of_the_others(decide: Decide) -> None:
    cluster = [box("n1", "01"), box("n2", "12"), box("n3", "13")]
    assert rails_of(decide(cluster, asks(members(3), SAME_RAILS, minimum=2))) == ["1", "1", "1"]
    assert rails_of(decide(cluster[:2], asks(members(3), SAME_RAILS, minimum=2))) == ["1", "1"]


def test_preferred_rails_cost_no_node_and_no_domain(decide: Decide) -> None:
    apart = [box("n1", "01", A), box("n2", "23", A), box("n3", "01", B)]
    two = asks(members(2, count=2), PREFERRED_RAILS)
    assert rails_of(decide(apart, two)) == ["01", "01"]
    in_one = replace(two, levels=(replace(CLUSTER, required=False),))
    assert rails_of(decide(apart, in_one)) == ["01", "23"]
    one_node = [box("n1", "01"), box("n2", "0")]
    assert rails_of(decide(one_node, asks(members(2), PREFERRED_RAILS))) == ["0", "1"]
    assert rails_of(decide(one_node, asks(members(2), SAME_RAILS))) == ["0", "0"]


def test_required_rails_move_the_gang_to_another_domain(decide: Decide) -> None:
    cluster = [box("a1", "01", A), box("a2", "23", A), box("b1", "0123", B), box("b2", "0123", B)]
    asked = replace(asks(members(2, count=2)), levels=(CLUSTER,))
    assert domain_of(decide(cluster, asked)) == "a"
    assert domain_of(decide(cluster, replace(asked, constraints=(SAME_RAILS,)))) == "b"


def test_all_cards_are_of_one_type_and_on_the_same_rails(decide: Decide) -> None:
    cluster = [box("n1", "01"), box("n2", "12", kind="H200"), box("n3", "12", kind="H200")]
    assert rails_of(decide(cluster, asks(members(2), ONE_TYPE, SAME_RAILS))) == ["1", "1"]
    answer = decide(cluster, asks(members(5), ONE_TYPE))
    assert said(answer) == (
        f"4 of 5 members fit in the cluster (devices on 2 nodes, {TYPE} H200 on 1 node); "
        f"same {TYPE}: H200, which most members can get; not free are H200 on n1"
    )


def test_each_member_has_rails_of_its_own(decide: Decide) -> None:
    cluster = [box("n1", "0123"), box("n2", "01"), box("n3", "0")]
    assert sorted(rails_of(decide(cluster, asks(members(4), OWN_RAIL)))) == ["0", "1", "2", "3"]
    assert f"distinct {RAIL}: too few values are free" in said(decide(cluster, asks(members(5), OWN_RAIL)))
    stands = (standing(0, cluster, "n3", "gpu-0"),)
    later = asks([member(1, count=3)], OWN_RAIL, minimum=2, standing=stands)
    assert rails_of(decide(cluster, later)) == ["123"]


def test_one_rail_is_left_for_the_member_that_can_have_no_other(decide: Decide) -> None:
    cluster = [box("n1", "01"), box("n2", "0")]
    first = member(0, among={"n1": None})
    second = member(1, among={"n2": None})
    assert devices_of(decide(cluster, asks([first, second], OWN_RAIL))) == ["n1/gpu-1", "n2/gpu-0"]
