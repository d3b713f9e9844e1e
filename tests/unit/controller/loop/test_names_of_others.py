"""No text on an object names pods or claims of another namespace: its reader may not be allowed to list them."""

from typing import Any

import pytest

from driver.kube.api import EVENTS, NAMESPACES, PODS, RESOURCE_CLAIMS, Forbidden
from tests.simulation.said_checks import names_of_others
from tests.unit.controller.loop.gangworld import gang_config
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.world import GATE

SECRET = "board"


class TwoTenants(PreemptingWorld):
    """Pods of the namespace ``board`` have the cards, which pods of ``default`` want."""

    def __init__(self, nodes: int = 2, cards: int = 1, **settings: Any):
        super().__init__(nodes, cards, **settings)
        self.api.create(NAMESPACES, {"metadata": {"name": SECRET}})

    def secret(self, name: str, priority: int = 0, count: int = 1, **pod: Any) -> None:
        """A pod of the other tenant that runs with its cards."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "count": count}}
        self.api.create(
            RESOURCE_CLAIMS,
            {"metadata": {"name": name, "namespace": SECRET}, "spec": {"devices": {"requests": [request]}}},
        )
        spec = {
            "priority": priority,
            "containers": [{"name": "m", "image": "x"}],
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "c", "resourceClaimName": name}],
            **pod,
        }
        self.api.create(PODS, {"metadata": {"name": name, "namespace": SECRET}, "spec": spec}, SECRET)
        self.settle()
        status = self.api.get(RESOURCE_CLAIMS, name, SECRET).get("status") or {}
        if allocation := status.get("allocation"):
            self.api.bind(SECRET, name, allocation["devices"]["results"][0]["pool"].split("/")[0])
            self.settle()

    def said(self) -> list[tuple[str, str]]:
        """Every text on an object, with the namespace of the object."""
        found = [(one["metadata"]["namespace"], one["message"]) for one in self.api.list(EVENTS).items]
        for pod in self.api.list(PODS).items:
            conditions = pod["status"].get("conditions") or []
            found += [(pod["metadata"]["namespace"], one.get("message") or "") for one in conditions]
        return found

    def check_names(self) -> None:
        """No text has a name of the other tenant."""
        both = frozenset(["default", SECRET])
        texts = self.said()
        assert texts
        assert not [text for namespace, text in texts if [*names_of_others(text, namespace, both)]]
        others = [
            pod["metadata"]["name"] for pod in self.api.list(PODS).items if pod["metadata"]["name"][:8] == "takeover"
        ]
        assert not [text for namespace, text in texts if namespace == "default" and any(one in text for one in others)]


def gang(world: TwoTenants, name: str, count: int, **pod: Any) -> None:
    for number in range(count):
        world.add_claim(f"{name}-{number}", config=[gang_config(name, count)])
        world.add_pod(f"{name}-{number}", f"{name}-{number}", **pod)


def test_a_pod_that_preempts_does_not_learn_whom() -> None:
    world = TwoTenants()
    for number in range(2):
        world.secret(f"takeover-{number}")
    world.wanting("spy", priority=HIGH)
    world.settle(5)
    assert world.condition("spy")[1] == "Preempting"
    assert world.condition("spy")[2].endswith("1 pod has to end before: a pod in another namespace")
    assert any(message.startswith("evicted a pod in another namespace from node") for message in world.events("spy"))
    world.check_names()


def test_several_of_them_are_counted_and_those_of_its_own_namespace_are_named() -> None:
    world = TwoTenants(nodes=1, cards=3)
    for number in range(2):
        world.secret(f"takeover-{number}")
    world.running("mine")
    world.wanting("spy", priority=HIGH, count=3)
    world.settle(5)
    assert "3 pods have to end before: default/mine; 2 pods in other namespaces" in world.condition("spy")[2]
    world.check_names()


def test_an_answer_about_the_right_to_evict_is_not_passed_on() -> None:
    world = TwoTenants(nodes=1)
    world.secret("takeover-0")

    def refuse(what: str, about: Any) -> None:
        if "eviction" in what or what.startswith("evict"):
            raise Forbidden(
                'pods "takeover-0" is forbidden: cannot create pods/eviction in namespace "board"', status=403
            )

    world.meddler.before = refuse
    world.wanting("spy", priority=HIGH)
    world.settle(60)
    assert "takeover" not in world.condition("spy")[2]
    world.check_names()


@pytest.mark.parametrize("count", [1, 2])
def test_other_reasons_to_wait_name_nobody_either(count: int) -> None:
    world = TwoTenants(nodes=2, cards=2)
    for number in range(3):
        world.secret(f"takeover-{number}", HIGH)
    world.secret("takeover-patient", HIGH, 2)
    world.settle(7200)
    gang(world, "ring", 2, preemptionPolicy="Never")
    world.wanting("one", count=count, preemptionPolicy="Never")
    world.settle(300)
    world.check_names()


def test_a_victim_learns_no_name_of_the_preemptor() -> None:
    world = TwoTenants(nodes=1)
    world.running("victim")
    world.secret("takeover-0", HIGH)
    world.settle(5)
    assert world.evicted() == ["victim"]
    assert world.events("victim", "Preempted")
    world.check_names()


def test_what_is_kept_for_a_claim_is_said_to_be_of_its_namespace() -> None:
    world = PreemptingWorld(nodes=1, cards=1)
    world.running("low")
    world.wanting("important", HIGH)
    world.settle(5)
    assert world.evicted() == ["low"]
    world.wanting("later", preemptionPolicy="Never")
    world.settle(5)
    said = world.condition("later")[2]
    assert "default/important" in said
    assert "namespace" not in said
