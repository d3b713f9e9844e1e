"""A question changes nothing, not even a version: whatever was found out before it is still known after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from controller.autoscaling import NewNodes, wish_of
from controller.explaining import ask_all
from controller.kueue.fitsnow import fits_now
from controller.membership import GangTerms, Source
from controller.preemption import Occupants, VictimLimits, make_room, waiting_pod
from controller.reconcile import NO_HISTORY, decide, decide_gang
from controller.reconcile.claims import double_use
from controller.reconcile.decisions import GangDecision, MakeRoom, PodRefusal
from controller.reconcile.gangmembers import KnownGang, KnownMember
from controller.reconcile.prospects import (
    could_take,
    fits_without_later_pods,
    node_to_hold,
    predicted_start,
    start_without,
)
from controller.refusal import AskedInVain, Refusal
from controller.state import PodView, State
from driver.clock import rfc3339
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from tests.unit.controller.everything import everything
from tests.unit.controller.filled_state import NOW, pod, slice_on
from tests.unit.controller.kueue.test_fitsnow import queued
from tests.unit.controller.reconcile.fabrics import FABRIC, Fabrics
from tests.unit.controller.workloads import claim_template, pod_set

RUNNING = {"a1/gpu-0": 0, "a1/gpu-1": 5, "b1/gpu-0": 0, "b2/gpu-0": 50, "b2/gpu-1": 0, "b3/gpu-0": 0, "b3/gpu-1": 0}
"""What is in use, and the priority of the pod there."""


@dataclass
class Asked:
    """Nodes where most devices are in use; a pod and a gang of priority 10 that wait; a place kept for another."""

    scene: Fabrics = field(default_factory=lambda: Fabrics(a=1, b=3))
    occupants: Occupants = field(init=False)

    def __post_init__(self) -> None:
        self.occupants = Occupants(self.state, follow=True)
        for place, priority in RUNNING.items():
            name = place.replace("/", "-")
            self.scene.claim(f"c-{name}", at=place, by=(name,))
            runs = pod(name, f"c-{name}", gates=(), nodeName=place.split("/")[0], priority=priority)
            runs["spec"]["activeDeadlineSeconds"] = 600 + priority
            runs["status"]["startTime"] = rfc3339(NOW)
            self.scene.put(PODS, runs)
        for node in ("a1", "b1", "b3"):
            self.scene.put(RESOURCE_SLICES, slice_on(node, 2, "nic.example.com", "nic"))
        self.scene.put(RESOURCE_CLAIM_TEMPLATES, claim_template("gpu"))
        self.scene.claim("two", ("gpu.lode.dev", "gpu.lode.dev"))
        self.scene.claim("two-nic", ("nic.example.com",))
        self.scene.pod("p", "two", "two-nic", priority=10)
        for number in range(3):
            self.scene.member(f"w{number}", priority=10)
        self.scene.claim("urgent", ("gpu.lode.dev", "gpu.lode.dev"))
        self.scene.pod("urgent", "urgent", priority=20)
        self.scene.claim("let-go", at="b1/gpu-1", by=("let-go",))
        self.scene.claim("let-go-nic", ("nic.example.com",))
        self.scene.put(PODS, pod("let-go", "let-go", "let-go-nic", gates=()))
        found = self.room_for("default/urgent")
        assert isinstance(found, MakeRoom)
        self.state.keep_place(found.place)

    @property
    def state(self) -> State:
        return self.scene.state

    @property
    def waits(self) -> PodRefusal:
        decision = decide(self.state, "default/p", NOW)
        assert isinstance(decision, Refusal)
        return decision

    def gang(self) -> GangDecision:
        members = tuple(KnownMember(f"default/w{number}", number) for number in range(3))
        terms = GangTerms("default/train", "uid", Source.CLAIM, 3, 3, (FABRIC,))
        known = KnownGang("default/train", terms, members, 0)
        return decide_gang(self.state, known, NOW, self.scene.choose, history_of=lambda _: NO_HISTORY)

    def room_for(self, key: str) -> object:
        wanted = waiting_pod(self.state, key, NOW)
        found = make_room(self.state, wanted, self.occupants.at(NOW, VictimLimits())) if wanted else None
        return found if found is None or isinstance(found, Refusal) else found[key]

    def room_for_gang(self) -> object:
        asked = self.gang().asked
        assert asked is not None
        return make_room(self.state, asked, self.occupants.at(NOW, VictimLimits()))

    def with_kept_places_open(self) -> object:
        with self.state.kept_places.open_to(["default/urgent"], 20):
            return decide(self.state, "default/urgent", NOW), self.state.kept_places.counts_too_much("default/urgent")

    def without_rooms(self) -> object:
        with self.state.kept_places.ignored():
            return [double_use(self.state, key) for key in self.state.claims]


def younger(other: PodView) -> bool:
    return other.priority < 10


QUESTIONS: Mapping[str, Callable[[Asked], object]] = {
    "where does the pod go": lambda one: decide(one.state, "default/p", NOW),
    "where does the gang go": Asked.gang,
    "why does no node take it": lambda one: ask_all(one.state, one.waits).reasons,
    "could a node take it": lambda one: [could_take(one.state, one.waits, name) for name in one.state.nodes],
    "which node is held for it": lambda one: node_to_hold(one.state, one.waits, younger),
    "does it fit when others end": lambda one: [
        fits_without_later_pods(one.state, one.waits, name, younger) for name in one.state.nodes
    ],
    "does the gang start when others end": lambda one: start_without(one.state, younger, one.gang),
    "when does the gang start": lambda one: predicted_start(one.state, ["a1", "b1", "b2", "b3"], one.gang),
    "who has to go for the pod": lambda one: one.room_for("default/p"),
    "who has to go for the gang": Asked.room_for_gang,
    "does a job fit now": lambda one: [
        fits_now(one.state, queued("w", pod_set(count=count)), [queued("first", pod_set())]) for count in (1, 9)
    ],
    "would a new node take it": lambda one: wish_of(one.state, NewNodes(one.state, unknown_kinds=False), one.waits),
    "what if kept places are open": Asked.with_kept_places_open,
    "who holds one device twice": Asked.without_rooms,
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_changes_no_version(question: Callable[[Asked], object]) -> None:
    asked = Asked()
    decision, in_vain = asked.waits, AskedInVain(1)
    in_vain.remember(decision.why.shape, asked.state.nodes.generation)
    before = everything(asked.state.cluster)
    answer = question(asked)
    assert everything(asked.state.cluster) == before
    assert in_vain.holds(decision.why.shape, asked.state.nodes.generation)
    assert question(asked) == answer
    assert everything(asked.state.cluster) == before
