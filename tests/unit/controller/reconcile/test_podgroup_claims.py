"""Claims that the pods of a PodGroup share: reserved for the PodGroup, and so for any number of pods."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from controller.gangs import Gang, GangPlan, TriedDomains, choose
from controller.reconcile import decide, decide_gang, known_gang
from controller.reconcile.claims import sick_devices
from controller.reconcile.decisions import GangDecision, PlacePod, Reason, TakeBack, Wait, claim_updates
from controller.refusal import Refusal
from driver.kube.api import POD_GROUPS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.model import Consumer
from driver.wire import consumer_to
from tests.unit.controller.filled_state import GATE, NOW, FilledState, claim, pod, slice_on
from tests.unit.controller.reconcile.inwords import about

GROUP = Consumer("podgroups", "train", "uid-group", "scheduling.k8s.io")
TEMPLATE = {"name": "cards", "resourceClaimTemplateName": "template-cards"}
NAMED = {"name": "cards", "resourceClaimName": "cards"}
GANG = {"gang": {"minCount": 2}}
BASIC: Object = {"basic": {}}


class Grouped(FilledState):
    """Pods of the PodGroup ``train``, which share the claim ``cards``."""

    def group(self, policy: Object, *entries: Object, version: int = 0) -> Any:
        spec = {"schedulingPolicy": policy, "resourceClaims": [*entries]}
        metadata = {"name": "train", "namespace": "default", "uid": "uid-group"}
        return self.put(POD_GROUPS[version], {"metadata": metadata, "spec": spec})

    def cards(self, at: str = "", reserved: Sequence[Consumer] = (), *, made: bool = True) -> None:
        """The claim; ``made`` if it was created for the PodGroup."""
        raw = claim("cards", at=at)
        if made:
            owner = {"kind": "PodGroup", "name": "train", "uid": "uid-group", "controller": True}
            raw["metadata"]["ownerReferences"] = [owner]
        if at:
            raw["status"]["reservedFor"] = [consumer_to(consumer) for consumer in reserved]
        self.put(RESOURCE_CLAIMS, raw)

    def member(self, name: str, *, template: bool = True, **options: Any) -> None:
        named, generated = ((), {"cards": "cards"}) if template else (("cards",), {})
        group = {"podGroupName": "train"}
        self.put(PODS, pod(name, *named, generated={**generated}, schedulingGroup=group, **options))

    def choose(self, gang: Gang) -> GangPlan | Refusal[TriedDomains]:
        return choose(gang, self.state.cluster)

    def decide_gang(self) -> GangDecision:
        return decide_gang(self.state, known_gang(self.state, "default/train"), NOW, self.choose)

    def written(self, key: str, decision: Any) -> list[Object]:
        """What is written to claims about the pod."""
        view = self.state.pods[key]
        consumer, devices = partial(self.state.consumer, view), self.state.device_statuses
        updates = claim_updates(decision, consumer, devices, "2027-01-15T08:00:00Z")
        return [update.status_patch(self.state.claims[update.claim].claim) for update in updates]


@pytest.mark.parametrize("version", range(len(POD_GROUPS)))
@pytest.mark.parametrize(("entry", "template"), [(TEMPLATE, True), (NAMED, False)])
def test_the_claim_is_reserved_for_the_pod_group_in_the_write_that_allocates_it(
    version: int, entry: Object, template: bool
) -> None:
    scene = Grouped(nodes=1)
    scene.group(GANG, entry, version=version)
    scene.cards(made=template)
    for name in ("w0", "w1"):
        scene.member(name, template=template)
    first = scene.decide_gang().members
    assert {key: about(one) for key, one in first.items()} == {"default/w0": "place n1 cards=n1/gpu-0"}
    (status,) = scene.written("default/w0", first["default/w0"])
    assert status["reservedFor"] == [consumer_to(GROUP)]
    scene.cards(at="n1/gpu-0", reserved=(GROUP,), made=template)
    second = scene.decide_gang().members
    assert {key: about(one) for key, one in second.items()} == {"default/w0": "place n1", "default/w1": "place n1"}
    assert not any(scene.written(key, one) for key, one in second.items())


def test_any_number_of_pods_shares_a_claim_of_their_pod_group() -> None:
    scene = Grouped(nodes=1)
    scene.group({"gang": {"minCount": 300}}, NAMED)
    scene.cards(made=False)
    for number in range(300):
        scene.member(f"w{number}", template=False)
    assert not any(
        one.reason is Reason.CLAIM_FULL for one in scene.decide_gang().members.values() if isinstance(one, Wait)
    )


def test_without_the_reservation_of_the_pod_group_too_many_pods_are_refused_up_front() -> None:
    scene = Grouped(nodes=1)
    scene.group({"gang": {"minCount": 257}})
    scene.cards(made=False)
    for number in range(257):
        scene.member(f"w{number}", template=False)
    decisions = scene.decide_gang().members.values()
    assert {one.reason for one in decisions if isinstance(one, Wait)} == {Reason.CLAIM_FULL}
    assert all("spec.resourceClaims of their PodGroup" in one.message for one in decisions if isinstance(one, Wait))


def test_pods_of_a_group_that_is_no_gang_follow_the_first_one_by_one() -> None:
    scene = Grouped(nodes=2)
    scene.group(BASIC, TEMPLATE)
    scene.cards()
    scene.member("w0")
    first = decide(scene.state, "default/w0", NOW)
    assert isinstance(first, PlacePod)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    scene.member("w0", gates=())
    scene.member("w1")
    second = decide(scene.state, "default/w1", NOW)
    assert about(second) == "place n1"
    assert not scene.written("default/w1", second)


def test_a_gated_pod_of_a_group_that_is_no_gang_takes_no_room_before_it_is_let_go() -> None:
    scene = Grouped(nodes=1)
    scene.group(BASIC, TEMPLATE)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    scene.member("w0", cpu="4", gates=())
    for name in ("w1", "w2"):
        scene.member(name, cpu="4")
    assert about(decide(scene.state, "default/w1", NOW)) == "place n1"


@pytest.mark.parametrize(
    "entries",
    [(), ({"name": "other", "resourceClaimTemplateName": "template-cards"},), (NAMED,)],
    ids=["no claims", "another name", "another source"],
)
def test_a_claim_that_was_made_for_a_group_is_refused_to_pods_that_do_not_name_it(entries: Sequence[Object]) -> None:
    scene = Grouped(nodes=1)
    scene.group(GANG, *entries)
    scene.cards()
    for name in ("w0", "w1"):
        scene.member(name)
    problems = [one for one in scene.decide_gang().members.values() if isinstance(one, Wait)]
    assert "ClaimNotOwned" in {one.reason for one in problems} or "was created for another PodGroup" in str(problems)


def test_a_claim_is_accepted_as_soon_as_its_pod_group_is_known() -> None:
    scene = Grouped(nodes=1)
    scene.cards()
    scene.member("w0")
    assert about(decide(scene.state, "default/w0", NOW)).startswith("wait")
    changes = scene.group(BASIC, TEMPLATE)
    assert "default/w0" in changes.pods
    assert about(decide(scene.state, "default/w0", NOW)) == "place n1 cards=n1/gpu-0"


def test_what_a_group_without_a_started_pod_holds_is_taken_back_with_its_reservation() -> None:
    scene = Grouped(nodes=1)
    scene.group({"gang": {"minCount": 3}}, TEMPLATE)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    for name in ("w0", "w1"):
        scene.member(name)
    taken = [one for one in scene.decide_gang().members.values() if isinstance(one, TakeBack)]
    assert [one.claims for one in taken] == [("default/cards",)]


def test_nothing_is_taken_from_a_group_while_one_of_its_pods_runs() -> None:
    scene = Grouped(nodes=1)
    scene.group(BASIC, TEMPLATE)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    scene.member("w0", gates=(), nodeName="n1", cpu="8")
    scene.member("w1", cpu="8")
    decision = decide(scene.state, "default/w1", NOW)
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.NODE_UNUSABLE


def test_the_pods_of_a_gang_count_on_the_node_from_the_reservation_on() -> None:
    scene = Grouped(nodes=1)
    scene.group(GANG, TEMPLATE)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    for name in ("w0", "w1"):
        scene.member(name, gates=(GATE,))
    assert {scene.state.nodes.node_of(f"default/{name}") for name in ("w0", "w1")} == {"n1"}


def test_the_pods_of_the_group_that_have_a_place_are_told_of_a_device_that_does_not_work() -> None:
    scene = Grouped(nodes=1)
    scene.group(BASIC, TEMPLATE)
    scene.cards(at="n1/gpu-0", reserved=(GROUP,))
    scene.member("runs", gates=(), nodeName="n1")
    scene.member("waits")
    part = slice_on("n1")
    part["spec"]["devices"][0]["taints"] = [{"key": "lode.dev/unhealthy", "effect": "NoSchedule"}]
    scene.put(RESOURCE_SLICES, part)
    found = sick_devices(scene.state, "default/cards")
    assert found is not None
    assert found.pods == ("default/runs",)
