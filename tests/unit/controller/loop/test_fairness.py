"""One namespace's flood of pods that wait keeps another's pod waiting for no more than a turn."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.allocation.selectors import TURN_STEPS
from controller.reconcile import decide
from controller.worker.queue import LEAST_SECONDS, TURN_SECONDS
from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS
from tests.unit.controller.loop.world import GATE, ControllerWorld

FLOOD = 300
MOST = round(TURN_SECONDS / LEAST_SECONDS) + 2
"""Decisions of one turn, on a clock that stands still meanwhile."""


def crowd(nodes: int, cards: int) -> ControllerWorld:
    """A cluster of two teams."""
    world = ControllerWorld(nodes=nodes, cards=cards)
    for name in ("flood", "other"):
        world.api.create(NAMESPACES, {"metadata": {"name": name}})
    world.settle(1)
    return world


def add(world: ControllerWorld, namespace: str, name: str, count: int = 1, cpu: str = "1m") -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "count": count}}
    claim = {"metadata": {"name": name, "namespace": namespace}, "spec": {"devices": {"requests": [request]}}}
    world.api.create(RESOURCE_CLAIMS, claim)
    add_pod(world, namespace, name, cpu)


def add_pod(world: ControllerWorld, namespace: str, name: str, cpu: str = "1m") -> None:
    spec = {
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        "schedulingGates": [{"name": GATE}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    world.api.create(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec}, namespace)


def is_let_go(world: ControllerWorld, namespace: str, name: str) -> bool:
    return not world.api.get(PODS, name, namespace)["spec"].get("schedulingGates")


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were decided, in order."""
    found: list[str] = []

    def counted(state: Any, key: str, *args: Any) -> Any:
        found.append(key)
        return decide(state, key, *args)

    monkeypatch.setattr("controller.loop.podsync.decide", counted)
    return found


def test_a_pod_that_fits_is_decided_within_a_turn_of_a_flood_that_came_before_it(decided: list[str]) -> None:
    world = crowd(2, 2)
    for number in range(FLOOD):
        add(world, "flood", f"f{number}", count=3, cpu=f"{number + 1}m")
    world.clock.advance(5)
    add(world, "other", "fits")
    world.settle(1)
    assert is_let_go(world, "other", "fits")
    assert decided.index("other/fits") <= MOST


def test_a_freed_card_reaches_another_namespace_within_a_turn_despite_a_flood_of_shapes(
    decided: list[str],
) -> None:
    world = crowd(1, 1)
    add(world, "other", "runs")
    world.settle(1)
    world.api.bind("other", "runs", "n1")
    for number in range(FLOOD):
        add(world, "flood", f"f{number}", count=3, cpu=f"{number + 1}m")
    add(world, "other", "waits")
    world.settle(60)
    decided.clear()
    claim = world.api.get(RESOURCE_CLAIMS, "runs", "other")
    world.api.delete(PODS, "runs", "other", grace_period_seconds=0)
    world.api.update(RESOURCE_CLAIMS, {**claim, "status": {}}, "status")
    world.settle(1)
    assert is_let_go(world, "other", "waits")
    assert decided.index("other/waits") <= MOST


def test_words_are_found_for_namespaces_in_turns() -> None:
    world = crowd(1, 1)
    for number in range(20):
        add(world, "flood", f"f{number}", count=3, cpu=f"{number + 1}m")
    add(world, "other", "waits", count=2)
    world.settle(1)
    told = [
        name
        for call, name in zip(world.meddler.calls, world.meddler.bodies, strict=False)
        if call == "patch pods/status"
    ]
    names = [name[0] for name in told if name]
    assert names.index("waits") <= 3


DEAR = 200
DEAR_STEPS = 20_000
"""Less than what a decision about a pod of the flood takes."""
STEP_SECONDS = 2e-6
"""What a step takes at most."""


def add_dear(world: ControllerWorld, name: str) -> None:
    """A pod of the flood whose selectors are all evaluated, and never hold."""
    kind, each = 'device.attributes["lode.dev"].kind', list(range(20))
    texts = [f'{each}.all(a, {each}.all(b, {kind} != "{name}-{number}"))' for number in range(5)]
    texts.append(f'{each}.exists(a, {each}.exists(b, {kind} == "{name}"))')
    exactly = {"deviceClassName": "gpu.lode.dev", "selectors": [{"cel": {"expression": text}} for text in texts]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    world.api.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "flood"}, "spec": spec})
    add_pod(world, "flood", name)


def work_until(world: ControllerWorld, holds: Callable[[], bool]) -> None:
    for _ in range(10 * DEAR):
        world.observe()
        while world.writes.step():
            world.observe()
        if holds():
            return
        world.controller.step()
    raise AssertionError("the controller never comes so far")


def takes_time(world: ControllerWorld) -> list[int]:
    """Let the clock go with the work; the steps of each decision."""
    turn = world.controller.state.devices.turn
    begin, work = turn.begin, turn.work
    spent: list[int] = []

    def begun(steps: float) -> None:
        spent.append(0)
        begin(steps)

    def worked(steps: int) -> None:
        spent[-1] += steps
        world.clock.advance(steps * STEP_SECONDS)
        work(steps)

    turn.begin, turn.work = begun, worked  # type: ignore[method-assign]
    return spent


def test_dear_selectors_of_a_flood_keep_another_namespace_waiting_for_no_more_than_a_turn(decided: list[str]) -> None:
    world = crowd(2, 2)
    spent = takes_time(world)
    for number in range(DEAR):
        add_dear(world, f"f{number}")
    work_until(world, lambda: len(decided) == 3)
    add(world, "other", "fits")
    at = len(spent)
    work_until(world, lambda: is_let_go(world, "other", "fits"))
    assert max(spent[:at]) > DEAR_STEPS
    assert sum(spent[at:]) <= TURN_SECONDS / STEP_SECONDS + TURN_STEPS
    assert decided.index("other/fits") <= 3 + TURN_SECONDS / STEP_SECONDS / DEAR_STEPS
