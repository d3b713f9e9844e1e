"""A fleet is followed as far as rights go, and what fails is told: never an empty fleet, and no other kind is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from cli.ui.document import whole_document
from cli.ui.following import CONSEQUENCES, LISTED_SECONDS, FleetWatch
from cli.ui.publishing import FleetDocuments, PackedDocument
from controller.state import GANG_RESOURCES
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    ApiError,
    Forbidden,
    Resource,
    Unavailable,
)
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import Upserted
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import claim, node, pod, slices, stored
from tests.unit.cli.fleetview.views import held
from tests.unit.cli.ui.fleets import NAMES
from tests.unit.cli.ui.served import filled
from tests.unit.cli.ui.test_document import rows


class _Refusing(ApiDecorator):
    """Refuses calls: ``denied`` are verb, kind and namespace; ``broken`` is what every call gets."""

    def __init__(self, api: Api):
        super().__init__(api)
        self.denied: set[tuple[str, Resource, str]] = set()
        self.broken: ApiError | None = None
        self.failing: dict[Resource, ApiError] = {}

    def before(self, call: ApiCall) -> None:
        if error := self.broken or self.failing.get(call.resource):
            raise error
        if (call.verb, call.resource, call.namespace) in self.denied:
            raise Forbidden(f"{call.resource.plural} is forbidden", status=403)


class Followed:
    """A small fleet, and its watch without threads."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.memory = MemoryApi(self.clock)
        self.memory.create(NAMESPACES, {"metadata": {"name": "other"}})
        waiting = stored(pod("w", "c", schedulingGates=[{"name": "lode.dev/allocation"}]))
        filled(self.memory, stored(node("a")), *slices("a", "t4x2", ("whole",)), stored(claim("c")), waiting)
        filled(self.memory, held("h", "a/gpu-0", "p"), held("o", "a/gpu-1", "q", namespace="other"))
        self.api = _Refusing(self.memory)
        self.watch = FleetWatch(self.api, NAMES, self.clock, "default")
        self.documents = FleetDocuments(self.watch, "lode.dev", self.clock)

    def step(self, times: int = 2) -> list[float]:
        return [pause for _ in range(times) for pause in [max(kind.step() for kind in self.watch.kinds)]]

    @property
    def document(self) -> Any:
        return whole_document(self.watch.contents(), "lode.dev")

    def states(self) -> list[str]:
        return [one["state"] for one in rows(self.document, "cards")]


@pytest.fixture
def followed() -> Followed:
    return Followed()


def test_nothing_is_shown_until_each_kind_was_read(followed: Followed) -> None:
    assert followed.watch.trouble == "the cluster is being read"
    for kind in followed.watch.kinds[:-1]:
        kind.step()
    assert followed.watch.trouble
    followed.step()
    assert (followed.watch.trouble, followed.states()) == ("", ["whole", "whole"])
    assert (followed.document["missing"], followed.document["problems"]) == ([], [])


@pytest.mark.parametrize("resource", CONSEQUENCES, ids=lambda one: one.api_version + one.plural)
def test_a_kind_that_may_not_be_listed_is_named_and_no_other_is_lost(followed: Followed, resource: Resource) -> None:
    followed.api.denied = {("list", resource, ""), ("list", resource, "default")}
    followed.step()
    assert followed.watch.trouble == ""
    (gap,) = followed.document["missing"]
    assert gap["kind"] == resource.plural
    assert gap["message"].endswith(f"in the whole cluster: {CONSEQUENCES[resource]}")
    assert followed.document["problems"] == []
    shown = {one["name"] for one in rows(followed.document, "pods")}
    assert ("w" in shown) == (resource not in (PODS,))
    assert followed.states() == {
        RESOURCE_SLICES: ["unpublished", "unpublished"],
        RESOURCE_CLAIMS: ["free", "free"],
    }.get(resource, ["whole", "whole"])


@pytest.mark.parametrize(
    "resource", [PODS, RESOURCE_CLAIMS, *GANG_RESOURCES], ids=lambda one: one.api_version + one.plural
)
def test_what_may_not_be_listed_everywhere_is_read_in_the_namespace(followed: Followed, resource: Resource) -> None:
    followed.api.denied = {("list", resource, "")}
    followed.step(3)
    (gap,) = followed.document["missing"]
    assert "only those of namespace default are known" in gap["message"]
    assert "w" in {one["name"] for one in rows(followed.document, "pods")}
    if resource == RESOURCE_CLAIMS:
        assert followed.states() == ["whole", "free"]
        filled(followed.memory, held("later", "a/gpu-1", "r"))
        followed.step(1)
        assert followed.states() == ["whole", "whole"]


def test_what_may_not_be_watched_is_listed_again_and_again(followed: Followed) -> None:
    followed.api.denied = {("watch", NODES, "")}
    assert followed.step(2)[-1] == LISTED_SECONDS
    (gap,) = followed.document["missing"]
    assert gap["message"] == "you may not watch nodes in the whole cluster: they are read again every 60 seconds"
    filled(followed.memory, stored(node("b")))
    followed.step(1)
    assert [one["name"] for one in rows(followed.document, "nodes")] == ["a", "b"]
    assert len(followed.document["missing"]) == 1


def test_an_api_that_fails_from_the_start_is_no_empty_fleet(followed: Followed) -> None:
    followed.api.broken = Unavailable("no route to host")
    followed.step()
    assert followed.watch.trouble == "the API server gives no usable answer: no route to host"
    followed.documents.write()
    assert newest(followed) is None
    assert "no route to host" in followed.documents.trouble


def test_who_is_not_known_to_the_api_is_told_so(followed: Followed) -> None:
    followed.api.broken = Forbidden("Unauthorized", status=401)
    followed.step()
    assert followed.watch.trouble == "the API server gives no usable answer: Unauthorized"


def test_what_is_known_stays_while_the_api_fails_and_its_age_is_told(followed: Followed) -> None:
    followed.step()
    assert followed.watch.age() == 0
    followed.clock.sleep(100)
    followed.api.broken = Unavailable("no route to host")
    followed.step(1)
    followed.clock.sleep(20)
    assert followed.watch.age() >= 120
    assert followed.states() == ["whole", "whole"]
    problems = followed.document["problems"]
    assert {one["message"] for one in problems} == {"no route to host"}
    assert {one["kind"] for one in problems} == {kind.resource.plural for kind in followed.watch.kinds}
    followed.api.broken = None
    followed.step(1)
    assert (followed.watch.age(), followed.document["problems"]) == (0, [])


def test_one_kind_that_fails_keeps_no_other_from_being_shown(followed: Followed) -> None:
    followed.api.failing = {DEVICE_TAINT_RULES: Unavailable("overloaded")}
    followed.step()
    assert (followed.watch.trouble, followed.states()) == ("", ["whole", "whole"])
    assert [one["kind"] for one in followed.document["problems"]] == ["devicetaintrules"]


# The document that is sent


def newest(followed: Followed) -> PackedDocument | None:
    return followed.documents.newest(lambda _: True)


def test_a_document_is_written_again_only_if_something_changes(followed: Followed) -> None:
    followed.step()
    followed.documents.write()
    first = newest(followed)
    assert first is not None
    followed.documents.write()
    filled(followed.memory, stored(pod("elsewhere")))
    followed.step(1)
    followed.clock.sleep(5)
    followed.documents.write()
    assert newest(followed) is first, "a pod without devices changes nothing"
    filled(followed.memory, stored(node("b")))
    followed.step(1)
    followed.documents.write()
    second = newest(followed)
    assert second is not None
    assert second.tag != first.tag


def test_a_removed_object_is_shown_no_more(followed: Followed) -> None:
    followed.step()
    followed.memory.delete(NODES, "a")
    followed.memory.delete(PODS, "w", "default")
    followed.step(1)
    assert [one["ready"] for one in rows(followed.document, "nodes")] == [-1]
    assert "w" not in {one["name"] for one in rows(followed.document, "pods")}


ODD: list[Callable[[Any], Any]] = [lambda raw: {**raw, "spec": 7}, lambda raw: {**raw, "spec": None, "status": []}]


@pytest.mark.parametrize("change", ODD)
def test_an_object_that_makes_no_sense_hides_no_other(followed: Followed, change: Callable[[Any], Any]) -> None:
    followed.step()
    odd = [slices("z", "t4x2", ("whole",))[0], stored(node("z")), held("z", "a/gpu-0"), stored(pod("z"))]
    for resource, raw in zip((RESOURCE_SLICES, NODES, RESOURCE_CLAIMS, PODS), odd, strict=True):
        metadata = {**raw["metadata"], "uid": f"z-{resource.plural}", "resourceVersion": "999"}
        followed.watch.fleet.take(Upserted(resource, change({**raw, "metadata": metadata})))
    assert followed.states() == ["whole", "whole"]
    assert followed.document["notes"]
