"""A claim of any tenant keeps the deciding thread from nobody, and its author is told what is too much."""

from typing import Any

from controller.allocation.selectors import CLAIM_STEPS, DEVICE_STEPS, TURN_STEPS
from driver.kube.api import RESOURCE_CLAIMS, Object
from tests.unit.controller.loop.world import ControllerWorld

KIND = 'device.attributes["lode.dev"].kind'


class MeteredWorld(ControllerWorld):
    """Notes what each turn takes."""

    most_in_a_turn = 0

    def settle(self, seconds: float = 0) -> None:
        turn = self.controller.state.devices.turn
        work, before = turn.work, [0]

        def begin(steps: float, begin: Any = turn.begin) -> None:
            before[0] = turn.spent
            begin(steps)

        def noted(steps: int) -> None:
            work(steps)
            self.most_in_a_turn = max(self.most_in_a_turn, turn.spent - before[0])

        turn.begin, turn.work = begin, noted  # type: ignore[method-assign]
        super().settle(seconds)

    @property
    def spent(self) -> int:
        return self.controller.state.devices.turn.spent

    def add_costly(self, name: str, selectors: list[str], members: int = 0) -> None:
        selected = [{"cel": {"expression": text}} for text in selectors]
        exactly = {"deviceClassName": "gpu.lode.dev", "selectors": selected}
        spec: Object = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        if members:
            asked = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
            gang = {"gang": {"name": "train", "minAvailable": members}}
            spec["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": asked | gang}}]
        self.api.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def looping(name: str, rounds: int) -> str:
    return f'{list(range(rounds))}.all(a, {list(range(30))}.all(b, {KIND} != "{name}"))'


def test_the_author_of_a_claim_that_takes_too_much_is_told_and_others_are_served() -> None:
    world = MeteredWorld(nodes=2)
    world.add_costly("evil", [looping(f"{i}", 90) for i in range(32)])
    for number in range(3):
        world.add_pod(f"evil-{number}", "evil")
    world.add_claim("good")
    world.add_pod("good", "good")
    world.settle(5)
    assert world.condition("good")[0] == "True"
    status, reason, message = world.condition("evil-0")
    assert (status, reason) == ("False", "InvalidClaim")
    assert "claim default/evil: spec.devices.requests[0].exactly.selectors" in message
    assert world.events("evil", "InvalidClaim")
    spent = world.spent
    assert spent <= CLAIM_STEPS + 4 * DEVICE_STEPS
    world.settle(900)
    assert world.spent == spent


def test_what_takes_more_than_a_turn_is_evaluated_over_several_and_placed() -> None:
    world = MeteredWorld(nodes=2)
    world.add_costly("dear", [looping(f"{i}", 20) for i in range(30)])
    world.add_pod("dear", "dear")
    world.settle(10)
    assert world.condition("dear")[0] == "True"
    assert world.spent > TURN_STEPS
    assert world.most_in_a_turn <= TURN_STEPS + 4 * DEVICE_STEPS


def test_a_gang_whose_members_differ_in_costly_selectors_is_evaluated_over_several_turns() -> None:
    world = MeteredWorld(nodes=2, cards=4)
    for number in range(4):
        world.add_costly(f"member-{number}", [looping(f"{number}-{i}", 20) for i in range(30)], members=4)
        world.add_pod(f"member-{number}", f"member-{number}")
    world.settle(30)
    assert {world.condition(f"member-{number}")[0] for number in range(4)} == {"True"}
    assert world.most_in_a_turn <= TURN_STEPS + 4 * DEVICE_STEPS
