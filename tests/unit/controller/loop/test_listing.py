"""What the controller lists, and in which order it serves what was there before it started."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from controller.loop import Controller, Ports
from controller.state import Decoded, StateDelta
from driver.kube.api import PODS, RESOURCE_SLICES, ApiCall, Page, Resource
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import Missing, Synced
from driver.model import Slice
from driver.observe import Metrics, logger
from tests.unit.controller.loop.world import ControllerWorld


def end(world: ControllerWorld, name: str, phase: str = "Succeeded") -> None:
    patch = {"status": {"phase": phase}}
    world.api.patch(PODS, name, patch, namespace="default", subresource="status", patch_type="strategic")


T = TypeVar("T")


class Recording(ApiDecorator):
    """An API that records the pages it answers."""

    pages: dict[Resource, list[Page]]

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        answer = proceed()
        if isinstance(answer, Page):
            self.pages.setdefault(call.resource, []).append(answer)
        return answer


def pages_read(world: ControllerWorld) -> dict[Resource, list[Page]]:
    """The pages that a controller reads when it starts."""
    api = Recording(world.api)
    api.pages = {}
    controller = Controller(Ports(api, world.writes, world.clock, Metrics(), logger("test")), world.settings, "me")
    for reflector in controller.reflectors:
        reflector.step()
    return api.pages


def test_a_pod_that_has_failed_is_not_listed_and_one_that_has_succeeded_is() -> None:
    world = ControllerWorld()
    for name in ("a", "b", "c"):
        world.add_pod(name, gates=())
    end(world, "a", "Failed")
    end(world, "b", "Succeeded")
    (page,) = pages_read(world)[PODS]
    assert [pod["metadata"]["name"] for pod in page.items] == ["b", "c"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ends_leaves_its_cpu_to_others(phase: str) -> None:
    world = ControllerWorld()
    world.add_pod("large", gates=(), cpu="8", nodeName="n1")
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    assert world.gates("p")
    end(world, "large", phase)
    world.settle()
    assert world.gates("p") == []


def test_slices_are_read_in_small_pages() -> None:
    pages = pages_read(ControllerWorld(nodes=50, cards=1))[RESOURCE_SLICES]
    assert len(pages) > 1
    assert sum(len(page.items) for page in pages) == 50


def test_pods_that_were_there_before_the_controller_are_served_by_age_and_not_by_name() -> None:
    world = ControllerWorld(cards=1)
    for name, claim in (("z", "older"), ("a", "younger")):
        world.add_claim(claim)
        world.add_pod(name, claim)
        world.clock.advance(10)
    world.settle()
    assert (world.gates("z"), world.devices("older")) == ([], ["n1/gpu-0"])
    assert world.gates("a")


def test_a_list_is_taken_in_object_by_object() -> None:
    world = ControllerWorld(nodes=30, cards=1)
    delivered: list[StateDelta] = []
    controller = Controller(
        Ports(world.api, world.writes, world.clock, Metrics(), logger("test")),
        world.settings,
        "me",
        deliver=delivered.append,
    )
    for reflector in controller.reflectors:
        reflector.step()
    slices = [delta for delta in delivered if isinstance(delta, Decoded) and delta.resource == RESOURCE_SLICES]
    assert [type(delta.value) for delta in slices] == [Slice] * 30
    ends = sum(isinstance(delta, Synced | Missing) for delta in delivered)
    assert ends == len(controller.reflectors)
