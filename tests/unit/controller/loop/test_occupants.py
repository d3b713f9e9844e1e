"""Who has a place is kept up to date: after any events, it is as if everybody had been looked at anew."""

import random

import pytest

from controller.preemption import Occupancy, VictimLimits, occupancy_of
from driver.kube.api import PODS, RESOURCE_CLAIMS, NotFound
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import wanting_gang

STEPS = 40


def facts(occupancy: Occupancy) -> object:
    """All that can be asked of it."""
    holders = occupancy.by_uid
    users = {claim.uid: sorted(occupancy.users(claim.uid)) for one in holders.values() for claim in one.claims}
    on = {node: sorted(one.uid for one in occupancy.on(node)) for node in occupancy.nodes}
    return holders, occupancy.going, users, on, occupancy.gangs, occupancy.budgets


class Events:
    """Random events of a cluster on which pods preempt others."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.world = PreemptingWorld(nodes=3, cards=2)
        self.made = 0

    def step(self) -> None:
        often = [self.add_pod, self.bind]
        seldom = [self.add_gang, self.delete, self.end, self.take_back, self.change_budget, self.restart, self.wait]
        try:
            self.random.choice([*often, *often, *seldom])()
        except NotFound:
            return
        self.world.settle(self.random.choice((0, 1, 5)))

    def check(self) -> None:
        state, now = self.world.controller.state, self.world.clock.monotonic()
        limits = VictimLimits(600, {"spared": "are spared"})
        kept = self.world.controller._occupants.at(now, limits)
        assert facts(kept) == facts(occupancy_of(state, now, limits))

    # Events

    def some(self, *, gated: bool | None = None) -> str:
        pods = [str(pod["metadata"]["name"]) for pod in self.world.api.list(PODS).items]
        pods = [name for name in pods if gated is None or bool(self.world.gates(name)) is gated]
        if not pods:
            raise NotFound("none")
        return self.random.choice(pods)

    def add_pod(self) -> None:
        self.made += 1
        grace, labels = self.random.choice((5, 30, 1000)), {"app": self.random.choice("ab")}
        priority = self.random.choice((0, 1, HIGH))
        self.world.wanting(f"pod-{self.made}", priority, labels=labels, terminationGracePeriodSeconds=grace)

    def add_gang(self) -> None:
        self.made += 1
        wanting_gang(self.world, 2, self.random.choice((0, HIGH)), name=f"gang-{self.made}")

    def bind(self) -> None:
        name = self.some(gated=False)
        if not self.world.pod(name)["spec"].get("nodeName") and self.world.held_by(name):
            self.world.bind(name, self.world.devices(name)[0].split("/")[0])

    def delete(self) -> None:
        self.world.api.delete(PODS, self.some(), "default")

    def end(self) -> None:
        """A pod is gone, and its claim may hold its devices for a while."""
        self.world.api.delete(PODS, self.some(), "default", grace_period_seconds=0)

    def take_back(self) -> None:
        """The claims of pods that are gone are cleared."""
        uids = {pod["metadata"]["uid"] for pod in self.world.api.list(PODS).items}
        for claim in self.world.api.list(RESOURCE_CLAIMS).items:
            reserved = (claim.get("status") or {}).get("reservedFor") or []
            if reserved and not any(entry["uid"] in uids for entry in reserved):
                claim["status"] = {}
                self.world.api.update(RESOURCE_CLAIMS, claim, "status")

    def change_budget(self) -> None:
        self.world.budget(self.random.choice((0, 1)), app="a")

    def restart(self) -> None:
        self.world.start()

    def wait(self) -> None:
        self.world.settle(self.random.choice((40, 100)))


@pytest.mark.parametrize("seed", range(8))
def test_who_has_a_place_is_known_after_any_events(seed: int) -> None:
    events = Events(seed)
    for _ in range(STEPS):
        events.step()
        events.check()
