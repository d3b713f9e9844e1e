"""What cannot be read any more: nothing is decided from it, and an operator is told."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from controller.loop.contact import LASTING_SECONDS
from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOB_SETS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    ApiCall,
    ApiError,
    Forbidden,
    NotFound,
    Resource,
    Unavailable,
)
from driver.kube.decorator import ApiDecorator
from tests.unit.controller.loop.world import ControllerWorld

NO_RIGHT = Forbidden("resourceclaims is forbidden", status=403)
DOWN = Unavailable("connection refused")


class Unreadable(ApiDecorator):
    """An API of which some kinds cannot be listed or watched."""

    errors: dict[Resource, ApiError]

    def around(self, call: ApiCall, proceed: Callable[[], Any]) -> Any:
        if call.verb in ("list", "watch") and call.resource in self.errors:
            raise self.errors[call.resource]
        return proceed()


class Reading(ControllerWorld):
    """A world whose controller may lose contact."""

    def reading(self) -> Any:
        self.readable = Unreadable(self.api)
        self.readable.errors = {}
        return self.readable

    custom = (VOLCANO_POD_GROUPS, JOB_SETS)

    def observe(self) -> None:
        for reflector in self.controller.reflectors:
            with suppress(ApiError):
                self.follow(reflector)

    def out_of_contact(self, resource: Resource) -> float:
        return self.metrics.registry.get_sample_value(
            "lode_controller_out_of_contact_seconds", {"resource": resource.plural}
        )  # type: ignore[return-value]


def test_a_lost_right_to_claims_stops_decisions_and_is_told_to_operators_not_to_users() -> None:
    world = Reading()
    world.settle()
    assert world.controller.unready == ""
    world.readable.errors = {RESOURCE_CLAIMS: NO_RIGHT}
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(600)
    assert world.controller.unready == "cannot list or watch resourceclaims: resourceclaims is forbidden"
    assert world.condition("p") == ("", "", "")
    assert world.events("p") == []
    world.controller.step()
    assert world.out_of_contact(RESOURCE_CLAIMS) > 0
    world.readable.errors = {}
    world.settle(60)
    assert world.controller.unready == ""
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.out_of_contact(RESOURCE_CLAIMS) == 0


@pytest.mark.parametrize("resource", [RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES])
def test_nothing_is_decided_from_what_may_be_out_of_date(resource: Resource) -> None:
    world = Reading()
    world.add_claim("a")
    world.settle()
    world.readable.errors = {resource: DOWN}
    world.add_pod("p", "a")
    world.settle(600)
    assert world.devices("a") == []


def test_pods_go_on_from_nodes_that_may_be_out_of_date() -> None:
    world = Reading()
    world.settle()
    world.readable.errors = {NODES: NO_RIGHT}
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    assert world.devices("a") == ["n1/gpu-0"]
    assert "cannot list or watch nodes" in world.controller.unready


def test_an_outage_makes_the_program_unready_only_if_it_lasts() -> None:
    world = Reading()
    world.settle()
    world.readable.errors = {PODS: DOWN}
    world.settle()
    assert world.controller.unready == ""
    world.clock.advance(LASTING_SECONDS)
    world.settle()
    assert world.controller.unready == "cannot list or watch pods: connection refused"


def test_nothing_is_decided_while_it_would_not_be_safe() -> None:
    world = Reading()
    world.unsafe = "the policies are gone"
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(600)
    assert (world.devices("a"), world.controller.unready) == ([], "the policies are gone")
    world.unsafe = ""
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def long(world: Reading) -> None:
    for _ in range(10):
        world.settle(60)
        world.controller.step()


@pytest.mark.parametrize("resource", [DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA])
def test_devices_are_not_handed_out_against_rules_that_may_not_be_read(resource: Resource) -> None:
    world = Reading()
    world.readable.errors = {resource: NO_RIGHT}
    world.add_claim("a")
    world.add_pod("p", "a")
    long(world)
    assert world.devices("a") == []
    assert "cannot list or watch devicetaintrules" in world.controller.unready
    assert world.out_of_contact(resource) > 0
    world.readable.errors = {}
    long(world)
    assert (world.devices("a"), world.controller.unready, world.out_of_contact(resource)) == (["n1/gpu-0"], "", 0)


@pytest.mark.parametrize("resource", [VOLCANO_POD_GROUPS, JOB_SETS, RESOURCE_CLAIM_TEMPLATES])
def test_other_rights_that_a_cluster_need_not_give_are_measured_and_done_without(resource: Resource) -> None:
    world = Reading()
    world.readable.errors = {resource: NO_RIGHT}
    world.add_claim("a")
    world.add_pod("p", "a")
    long(world)
    assert (world.devices("a"), world.controller.unready) == (["n1/gpu-0"], "")
    assert world.out_of_contact(resource) > 0


@pytest.mark.parametrize(
    "resource", [DEVICE_TAINT_RULES, VOLCANO_POD_GROUPS, JOB_SETS], ids=lambda resource: resource.plural
)
def test_a_kind_that_is_served_no_longer_stops_decisions_for_a_moment_only(resource: Resource) -> None:
    world = Reading()
    world.settle()
    world.readable.errors = {resource: NotFound("the server could not find the requested resource", status=404)}
    world.add_claim("a")
    world.add_pod("p", "a")
    long(world)
    assert (world.devices("a"), world.controller.unready) == (["n1/gpu-0"], "")
    assert world.out_of_contact(resource) == 0
