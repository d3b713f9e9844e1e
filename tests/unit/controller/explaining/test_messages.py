"""What a reader of the pod is told: kube-scheduler's clause first, no names of other namespaces' claims."""

import pytest

from controller.allocation import NodeReasons
from controller.allocation.reasons import Exclusion, Shortage
from controller.explaining.messages import message_of
from driver.errors import Fault


def full(*holders: str, freeing: tuple[str, ...] = ()) -> NodeReasons:
    shortage = Shortage(
        "team/a", "gpu", "gpu.lode.dev", 1, 2, 0, (Exclusion(2, "inUse"),), holders=holders, freeing=freeing
    )
    return NodeReasons(shortages=(shortage,), claims=("team/a",))


def refused(clause: str) -> NodeReasons:
    return NodeReasons((f"kube-scheduler refused the pod there: {clause}",), clause=clause)


def test_kube_schedulers_clause_comes_first_once_for_all_nodes_that_refused() -> None:
    refusals = {"n1": full("team/b"), "n2": refused("no volume there"), "n3": refused("no volume there")}
    message = message_of(refusals, ["team/a"]).text(["team/a"])
    assert message.startswith(
        "kube-scheduler refuses the pod on 2 nodes: no volume there. 0 of 3 nodes can take the pod. node n1: claim"
    )


def test_if_every_node_refused_there_is_nothing_more_to_say() -> None:
    message = message_of({"n1": refused("x"), "n2": refused("y"), "n3": refused("x")}, ["team/a"]).text(["team/a"])
    assert message == (
        "kube-scheduler refuses the pod on 2 nodes: x. kube-scheduler refuses the pod on 1 node: y. "
        "0 of 3 nodes can take the pod."
    )


def test_claims_of_other_namespaces_are_counted_and_not_named() -> None:
    message = message_of(
        {"n1": full("secret/one", "secret/two", "team/own", freeing=("secret/one",))}, ["team/a"]
    ).text(["team/a"])
    assert "in use by team/own, 2 claims in other namespaces; freeing a claim in another namespace would do" in message
    assert "secret" not in message


FAULTY = NodeReasons(faults=(Fault("spec", "no such class", "team/a"),), claims=("team/a",))


@pytest.mark.parametrize("reason", [full("team/b"), FAULTY], ids=["shortage", "fault"])
def test_reasons_that_were_found_for_another_pods_claim_are_told_with_this_pods(reason: NodeReasons) -> None:
    found = message_of({"n1": reason}, ["team/mine"]).text(["team/mine"])
    explained = message_of({"n1": reason}, ["team/a"]).text(["team/mine"])
    for message in (found, explained):
        assert "claim team/mine" in message
        assert "claim team/a" not in message
