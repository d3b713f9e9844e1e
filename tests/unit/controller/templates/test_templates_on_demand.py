"""Templates that the controller makes because pods name them: who gets one, who is told why not, and when they go."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from driver.kube.api import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ApiCall,
    Conflict,
    Forbidden,
    NotFound,
    Object,
    Unavailable,
)
from driver.kube.decorator import ApiDecorator
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from tests.unit.controller.loop.world import ControllerWorld, Killed, expect_kill

GPU = "lode.gpu"
TWO = "lode.2-gpu"
ADOPTED = "lode-adopt.nvidia.n1"
UNUSED_SECONDS = 600


class WithTemplates(ControllerWorld):
    """A ``ControllerWorld`` in which claims are made from templates."""

    def __init__(self, cards: int = 4, **settings: Any):
        super().__init__(nodes=1, cards=cards, **settings)
        self.claims = ResourceClaimController(self.api, self.clock)

    def observe(self) -> None:
        """Let the reflectors catch up, and claims be made."""
        for reflector in self.controller.reflectors:
            with suppress(Forbidden):
                self.follow(reflector)
        for reflector in self.claims.reflectors:
            reflector.step()
        while self.claims.step():
            pass

    def add(self, name: str, *templates: str, namespace: str = "default", gates: tuple[str, ...] | None = None) -> None:
        """A pod that names templates."""
        entries = [{"name": f"lode-{index}", "resourceClaimTemplateName": one} for index, one in enumerate(templates)]
        pod = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "containers": [{"name": "main", "image": "pause"}],
                "schedulingGates": [{"name": gate} for gate in (("lode.dev/allocation",) if gates is None else gates)],
                "resourceClaims": entries,
            },
        }
        self.api.create(PODS, pod, namespace)

    def add_template(self, name: str, **labels: str) -> Object:
        """A template that somebody else made."""
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
        metadata = {"name": name, "namespace": "default", "labels": labels}
        spec = {"spec": {"devices": {"requests": requests}}}
        return self.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": spec})

    @property
    def templates(self) -> list[str]:
        return [template["metadata"]["name"] for template in self.api.list(RESOURCE_CLAIM_TEMPLATES).items]

    def runs(self, *pods: str) -> bool:
        """Whether the pods were let go."""
        return not any(self.gates(pod) for pod in pods)

    def refuse_templates(self, error: Exception) -> None:
        def meddle(what: str, _: object) -> None:
            if what == "create resourceclaimtemplates":
                raise error

        self.meddler.before = meddle


class Blind(ApiDecorator):
    """An API of which templates cannot be read."""

    def around(self, call: ApiCall, proceed: Callable[[], Any]) -> Any:
        if call.verb in ("list", "watch") and call.resource == RESOURCE_CLAIM_TEMPLATES:
            raise Forbidden("resourceclaimtemplates is forbidden", status=403, reason="Forbidden")
        return proceed()


@pytest.fixture
def world() -> WithTemplates:
    return WithTemplates()


@pytest.mark.parametrize("name", [GPU, ADOPTED])
def test_a_pod_that_names_a_template_on_demand_gets_it_and_its_devices(world: WithTemplates, name: str) -> None:
    world.add("p", name)
    world.settle(5)
    assert world.templates == [name]
    assert world.runs("p")
    [template] = world.api.list(RESOURCE_CLAIM_TEMPLATES).items
    assert template["metadata"]["labels"] == {"lode.dev/on-demand": "true"}


def test_many_pods_share_a_template_which_is_made_once(world: WithTemplates) -> None:
    for number in range(4):
        world.add(f"p{number}", GPU)
    world.settle(5)
    assert world.runs("p0", "p1", "p2", "p3")
    assert world.meddler.calls.count("create resourceclaimtemplates") == 1


def test_a_pod_may_name_several_templates(world: WithTemplates) -> None:
    world.add("p", GPU, TWO)
    world.settle(5)
    assert world.runs("p")
    assert sorted(world.templates) == [TWO, GPU]


def test_names_of_others_and_pods_without_our_gate_make_none(world: WithTemplates) -> None:
    world.add("p", "lodestar")
    world.add("q", GPU, gates=("example.com/queue",))
    world.settle(60)
    assert world.templates == []


def test_a_pod_whose_name_says_nothing_is_told_at_once_and_nobody_else_waits(world: WithTemplates) -> None:
    world.add("wrong", "lode.unicorn")
    world.add("p", GPU)
    world.settle(1)
    assert world.templates == [GPU]
    assert world.runs("p")
    status, reason, message = world.condition("wrong")
    assert (status, reason) == ("False", "TemplateInvalid")
    assert "lode.unicorn" in message
    assert world.events("wrong", "TemplateInvalid") == [message]


@pytest.mark.parametrize("name", ["lode." + "9" * 200, "lode-adopt." + "n9" * 120, "lode-adopt.hami.n" + "8" * 200])
def test_hostile_names_are_judged_each_for_itself(world: WithTemplates, name: str) -> None:
    world.add("wrong", name)
    world.add("p", GPU)
    world.settle(5)
    assert world.condition("wrong")[1] == "TemplateInvalid"
    assert world.runs("p")


def test_a_template_goes_ten_minutes_after_its_last_pod(world: WithTemplates) -> None:
    world.add("p", GPU)
    world.settle(5)
    world.settle(2 * UNUSED_SECONDS)
    assert world.templates == [GPU]
    world.remove_pod("p")
    world.settle(UNUSED_SECONDS - 5)
    assert world.templates == [GPU]
    world.settle(10)
    assert world.templates == []


def test_a_pod_that_comes_meanwhile_keeps_it(world: WithTemplates) -> None:
    world.add("p", GPU)
    world.settle(5)
    world.remove_pod("p")
    world.settle(UNUSED_SECONDS / 2)
    world.add("q", GPU)
    world.settle(5)
    world.remove_pod("q")
    world.settle(UNUSED_SECONDS - 5)
    assert world.templates == [GPU]
    assert world.meddler.calls.count("create resourceclaimtemplates") == 1


def test_a_pod_that_comes_when_it_is_being_removed_has_it_made_again(world: WithTemplates) -> None:
    world.add("p", GPU)
    world.settle(5)
    world.remove_pod("p")

    def meddle(what: str, _: object) -> None:
        if what == "delete resourceclaimtemplates":
            world.meddler.after = None
            world.add("q", GPU)

    world.meddler.after = meddle
    world.settle(UNUSED_SECONDS + 10)
    assert world.runs("q")
    assert world.templates == [GPU]


def test_templates_of_others_are_used_and_left_alone(world: WithTemplates) -> None:
    world.add_template(GPU)
    world.add_template("lodestar", **{"lode.dev/on-demand": "true"})
    world.add("p", GPU)
    world.settle(5)
    assert world.runs("p")
    world.remove_pod("p")
    world.settle(2 * UNUSED_SECONDS)
    assert sorted(world.templates) == [GPU, "lodestar"]
    assert not [call for call in world.meddler.calls if call.endswith("resourceclaimtemplates")]


def test_one_that_was_deleted_by_hand_is_made_again_for_pods_that_wait(world: WithTemplates) -> None:
    world.add("p", "lode.8-gpu")
    world.settle(5)
    world.api.delete(RESOURCE_CLAIM_TEMPLATES, "lode.8-gpu", "default")
    world.settle(5)
    assert world.templates == ["lode.8-gpu"]


def test_a_namespace_has_a_bound_and_others_do_not_wait_for_it() -> None:
    world = WithTemplates(cards=8, templates={"perNamespace": 2})
    for number in range(1, 5):
        world.add(f"p{number}", f"lode.{number}-gpu")
    world.api.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    world.add("other", GPU, namespace="elsewhere")
    world.settle(5)
    assert sorted(world.templates) == ["lode.1-gpu", "lode.2-gpu", GPU]
    assert world.runs("p1", "p2")
    for pod in ("p3", "p4"):
        status, reason, message = world.condition(pod)
        assert (status, reason) == ("False", "TemplateRefused")
        assert "has 2 templates on demand, and may have 2" in message


def test_a_namespace_that_names_hundreds_keeps_no_other_one_waiting() -> None:
    world = WithTemplates(cards=8)
    world.api.create(NAMESPACES, {"metadata": {"name": "greedy"}})
    for size in range(1, 301):
        world.add(f"p{size}", f"lode.share-{size}gi", namespace="greedy")
    world.add("p", GPU)
    before: list[str] = []

    def meddle(what: str, about: Object) -> None:
        if what == "create resourceclaimtemplates":
            before.append(about["metadata"]["name"])

    world.meddler.before = meddle
    world.settle(5)
    assert world.runs("p")
    assert before.index(GPU) < 20
    assert len(before) == 201, "as many as a namespace may have, and the other one"


def test_what_nobody_uses_makes_room_at_once_and_the_next_is_made() -> None:
    world = WithTemplates(cards=8, templates={"perNamespace": 1})
    for number in (1, 2, 3):
        world.add(f"p{number}", f"lode.{number}-gpu")
    world.settle(5)
    assert world.runs("p1")
    world.remove_pod("p1")
    world.settle(5)
    assert world.templates == ["lode.2-gpu"]
    assert world.runs("p2")
    world.remove_pod("p2")
    world.settle(5)
    assert world.templates == ["lode.3-gpu"]
    assert world.runs("p3")


def test_no_templates_are_made_with_the_bound_zero() -> None:
    world = WithTemplates(templates={"perNamespace": 0})
    world.add("p", GPU)
    world.settle(120)
    assert world.templates == []
    assert world.condition("p")[1] == "TemplateRefused"


def test_a_refused_write_is_told_on_the_pods_and_tried_again(world: WithTemplates) -> None:
    world.refuse_templates(Forbidden("exceeded quota: templates, used: 5, limited: 5", status=403, reason="Forbidden"))
    world.add("p", GPU)
    world.add("q", GPU)
    world.add_claim("own")
    world.add_pod("r", "own")
    world.settle(5)
    assert world.runs("r")
    for pod in ("p", "q"):
        status, reason, message = world.condition(pod)
        assert (status, reason) == ("False", "TemplateRefused")
        assert "exceeded quota: templates, used: 5, limited: 5" in message
    world.meddler.before = None
    world.settle(70)
    assert world.runs("p", "q")


def test_a_namespace_that_is_gone_keeps_nobody_busy(world: WithTemplates) -> None:
    world.refuse_templates(NotFound('namespaces "default" not found', status=404, reason="NotFound"))
    world.add("p", GPU)
    world.settle(20)
    assert world.meddler.calls.count("create resourceclaimtemplates") <= 11


@pytest.mark.parametrize("error", [Unavailable("connection lost"), Conflict("changed", status=409, reason="Conflict")])
def test_a_removal_that_failed_is_tried_again(world: WithTemplates, error: Exception) -> None:
    world.add("p", GPU)
    world.settle(5)
    world.remove_pod("p")
    calls = count(1)

    def meddle(what: str, _: object) -> None:
        if what == "delete resourceclaimtemplates" and next(calls) == 1:
            raise error

    world.meddler.before = meddle
    world.settle(UNUSED_SECONDS + 10)
    assert world.templates == []


def test_templates_that_may_not_be_read_are_made_and_none_is_removed(world: WithTemplates) -> None:
    world.reading = lambda: Blind(world.api)  # type: ignore[method-assign]
    world.start()
    world.add_template(TWO)
    world.add("p", GPU)
    world.add("q", TWO)
    world.settle(5)
    assert world.runs("p", "q")
    world.remove_pod("p")
    world.settle(2 * UNUSED_SECONDS)
    assert sorted(world.templates) == [TWO, GPU]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
def test_killed_at_any_call_the_next_run_makes_what_is_missing(number: int, moment: str) -> None:
    world, calls = WithTemplates(), count(1)

    def meddle(what: str, _: object) -> None:
        if next(calls) == number:
            raise Killed

    setattr(world.meddler, moment, meddle)
    world.add("p", GPU)
    with expect_kill():
        world.settle(5)
    world.start()
    world.settle(5)
    assert world.runs("p")
    assert world.templates == [GPU]
    world.remove_pod("p")
    world.settle(5)
    world.start()
    world.settle(UNUSED_SECONDS + 10)
    assert world.templates == []
    assert world.api.list(RESOURCE_CLAIMS).items == []


def test_pods_that_come_and_go_at_a_thousand_a_minute_leave_no_template() -> None:
    world = WithTemplates(cards=64, templates={"unusedSeconds": 5})
    names = [f"lode.{size}-gpu" for size in (1, 2, 3, 4)]
    for number in range(200):
        world.add(f"p{number}", names[number // 50])
        world.settle(0.06)
        if number >= 10:
            assert world.runs(f"p{number - 10}")
            world.remove_pod(f"p{number - 10}")
    assert names[0] not in world.templates, "it goes while pods that name others come"
    for number in range(190, 200):
        world.remove_pod(f"p{number}")
    world.settle(10)
    assert world.templates == []
    assert world.meddler.calls.count("create resourceclaimtemplates") == 4
    assert world.meddler.calls.count("delete resourceclaimtemplates") == 4
