"""Every write of the programs, with another writer who is faster: it is refused where the decision may be out of date.

The table has every kind of write. A write that is decided about an object in one version is refused for every other
version, and a write that is decided about an object in any version is refused for another object of its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import pytest

from controller.election import Election, LeaseTerms
from driver.kube.api import EVENTS, LEASES, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiCall
from driver.settings import KubeletPluginSettings, Settings
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.system.rival import MADE, REFUSED, Act, Rival, change, replace
from tests.unit.controller.loop.world import NAMES, ControllerWorld
from tests.unit.kubeletplugin.publish.publishing_node import PublishingNode

Contest = Callable[[Api], Rival]
"""Puts the rival between a program and the API."""


class ContestedWorld(ControllerWorld):
    """A world in which the rival is faster than the controller."""

    def __init__(self, contest: Contest, **options: int):
        self._contest = contest
        super().__init__(**options)

    def network(self) -> Api:
        return self._contest(self.api)


# What makes a program write


def place(contest: Contest) -> None:
    world = ContestedWorld(contest)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(60)
    world.check()


def share(contest: Contest) -> None:
    """A second pod gets a claim that is allocated."""
    world = ContestedWorld(contest)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.add_pod("q", "a")
    world.settle(60)
    world.check()


def take_back(contest: Contest) -> None:
    """kube-scheduler refuses the pod on the first node."""
    world = ContestedWorld(contest, nodes=2)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.refuse("p")
    world.settle(60)
    world.check()


def wait(contest: Contest) -> None:
    """A pod is told why it waits; later it waits for another reason, and then for the first again."""
    world = ContestedWorld(contest)
    world.add_claim("a", count=9)
    world.add_pod("p", "a")
    world.settle()
    world.api.delete(RESOURCE_CLAIMS, "a", "default")
    world.settle()
    world.add_claim("a", count=9)
    world.settle(60)
    world.check()


def free(contest: Contest) -> None:
    """A claim that nobody uses any more is still allocated."""
    world = ContestedWorld(contest)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.api.patch(RESOURCE_CLAIMS, "a", {"status": {"reservedFor": None}}, namespace="default", subresource="status")
    world.api.delete(PODS, "p", "default", grace_period_seconds=0)
    world.settle(60)
    assert world.devices("a") == []


def place_with_parameters_of_other_bytes(contest: Contest) -> None:
    """The API server refuses to patch a claim whose parameters were not written as Go writes them."""

    def refusing(api: Api) -> Rival:
        rival = contest(api)
        rival.invalid = _patches_finalizers
        return rival

    world = ContestedWorld(refusing)
    parameters = {"apiVersion": NAMES.parameters_api_version, "kind": "PlacementConfig", "policy": "binpack"}
    world.add_claim("a", config=[{"opaque": {"driver": "lode.dev", "parameters": parameters}}])
    world.add_pod("p", "a")
    world.settle(60)
    world.check()


def _patches_finalizers(call: ApiCall) -> bool:
    return call.verb == "patch" and call.resource == RESOURCE_CLAIMS and "finalizers" in call.body["metadata"]


def lead(contest: Contest) -> None:
    """One candidate creates and renews the Lease, another takes it over and releases it."""
    clock = VirtualClock()
    memory = MemoryApi(clock)
    memory.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    api = contest(memory)
    terms = LeaseTerms("lode-system", "lode-controller", 15, 10)
    one, two = (Election(api, clock, terms, name) for name in ("one", "two"))
    for candidate in (one, one, *[two] * 12):
        candidate.step()
        clock.advance(3)
    two.release()


def publish(contest: Contest) -> None:
    """A node's cards are published; then one is unhealthy; then less is offered."""
    rig = PublishingNode("a100x4")
    rig.node()
    rig.memory = cast("MemoryApi", contest(rig.memory))
    rig.start().run(60)
    rig.files.write("/faults/gpu-1", b"Xid 79")
    rig.start().run(60)
    rig.settings = Settings(kubeletplugin=KubeletPluginSettings(offer=("whole",)))
    rig.start().run(60)


@dataclass(frozen=True, slots=True)
class Write:
    """A kind of write."""

    program: Callable[[Contest], None]
    kind: str
    changed: str = REFUSED
    """What becomes of it if the object was changed before."""
    replaced: str = REFUSED
    """What becomes of it if the object was deleted before, and another of its name created."""


ONLY_OWN_FIELDS: Final = MADE
"""The write sets fields that nobody else sets, so other changes of the object do not matter."""
ONLY_WORDS: Final = MADE
"""Events are words: at worst one is counted wrong."""

WRITES = (
    Write(place, "claim: add the finalizer"),
    Write(place_with_parameters_of_other_bytes, "claim: add the finalizer"),
    Write(place, "claim: allocate and reserve"),
    Write(share, "claim: change the reservations"),
    Write(take_back, "claim: change the reservations"),
    Write(take_back, "claim: clear"),
    Write(free, "claim: clear"),
    Write(place, "pod: nominate the node", changed=ONLY_OWN_FIELDS),
    Write(place, "pod: remove the gate", changed=ONLY_OWN_FIELDS),
    Write(take_back, "pod: nominate no node", changed=ONLY_OWN_FIELDS),
    Write(take_back, "pod: mark the refusal as old", changed=ONLY_OWN_FIELDS),
    Write(wait, "pod: say why it waits", changed=ONLY_OWN_FIELDS),
    Write(wait, "event: create"),
    Write(wait, "event: count up", changed=ONLY_WORDS, replaced=ONLY_WORDS),
    Write(lead, "lease: create"),
    Write(lead, "lease: renew"),
    Write(lead, "lease: take over"),
    Write(lead, "lease: release"),
    Write(publish, "slice: create"),
    Write(publish, "slice: update"),
    Write(publish, "slice: delete"),
)


def kind_of(call: ApiCall) -> str:
    """What a write is for, in the words of the table."""
    if call.resource == RESOURCE_CLAIMS:
        return f"claim: {_claim_write(call)}"
    if call.resource == PODS:
        return f"pod: {_pod_write(call)}"
    if call.resource == LEASES:
        holder = call.body["spec"]["holderIdentity"]
        return f"lease: {'create' if call.verb == 'create' else _LEASE_WRITES[holder]}"
    if call.resource == EVENTS:
        return f"event: {'create' if call.verb == 'create' else 'count up'}"
    assert call.resource == RESOURCE_SLICES, f"no kind of write: {call}"
    return f"slice: {call.verb}"


_LEASE_WRITES: Final = {"one": "renew", "two": "take over", "": "release"}
_POD_CONDITIONS: Final = {
    ("PodScheduled", ""): "mark the refusal as old",
    ("lode.dev/Allocated", "True"): "nominate the node",
    ("lode.dev/Allocated", "False"): "say why it waits",
}


def _claim_write(call: ApiCall) -> str:
    if not call.subresource:
        return "add the finalizer"
    status = call.body["status"]
    if "allocation" not in status:
        return "change the reservations"
    return "allocate and reserve" if status["allocation"] else "clear"


def _pod_write(call: ApiCall) -> str:
    if isinstance(call.body, list):
        return "remove the gate"
    if "conditions" not in call.body["status"]:
        return "nominate no node"
    (condition,) = call.body["status"]["conditions"]
    return _POD_CONDITIONS[condition["type"], condition.get("status", "")]


def run(write: Write, contested: str, act: Act) -> Rival:
    """What the rival saw while the programs of a row worked."""
    rivals: list[Rival] = []

    def contest(api: Api) -> Rival:
        rivals.append(Rival(api, kind_of, contested, act))
        return rivals[-1]

    write.program(contest)
    (rival,) = rivals
    return rival


@pytest.mark.parametrize("write", WRITES, ids=lambda write: f"{write.kind} ({write.program.__name__})")
def test_a_write_does_not_reach_an_object_that_it_was_not_decided_about(write: Write) -> None:
    assert run(write, write.kind, change).outcome == write.changed
    if not write.kind.endswith(": create"):
        assert run(write, write.kind, replace).outcome == write.replaced


def test_the_table_has_every_kind_of_write() -> None:
    made = {kind for write in WRITES for kind in run(write, "", change).made}
    assert made == {write.kind for write in WRITES}
