"""What the plugin knows of its Node and slices: one object that makes no sense harms no other."""

from typing import Any

import pytest

from driver.kube.api import NODES, RESOURCE_SLICES, Object, Undecoded
from driver.kube.reflector import Removed, Restored, Synced, Upserted
from kubeletplugin.publish.poolview import PoolView


def part(name: str, version: int = 5, driver: str = "lode.dev", **spec: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"driver": driver, "pool": {"name": "n1", "generation": 1}, **spec}}


def followed() -> PoolView:
    """The view of n1 with one slice."""
    view = PoolView("n1", "lode.dev")
    node = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}}
    view.handle(Upserted(NODES, node))
    view.handle(Upserted(RESOURCE_SLICES, part("s")))
    for resource, key in ((NODES, "n1"), (RESOURCE_SLICES, "s")):
        view.handle(Synced(resource, frozenset({key}), "9"))
    return view


def known(view: PoolView) -> tuple[Object, list[Object]]:
    observed = view.observed()
    assert observed is not None
    return observed[0], list(observed[1])


UNREADABLE = Undecoded({"name": "s", "uid": "uid-s", "resourceVersion": "7"}, "not a JSON object")
HOSTILE = {
    "not JSON": (RESOURCE_SLICES, UNREADABLE),
    "a Node that is not JSON": (NODES, Undecoded({"name": "n1", "uid": "u", "resourceVersion": "7"}, "not JSON")),
    "no spec": (RESOURCE_SLICES, {"metadata": part("x")["metadata"]}),
    "labels that are no texts": (NODES, {"metadata": {"name": "n1", "uid": "u", "labels": {"a": ["b"]}}}),
    "devices of another driver": (RESOURCE_SLICES, part("x", driver="gpu.nvidia.com", devices=[5])),
}


@pytest.mark.parametrize(("resource", "obj"), HOSTILE.values(), ids=HOSTILE)
def test_an_object_that_makes_no_sense_changes_nothing(resource: Any, obj: Object) -> None:
    view = followed()
    before = known(view)
    assert not view.handle(Upserted(resource, obj))
    assert known(view) == before
    assert [*view.unreadable()] == [(resource, obj["metadata"]["name"])]
    view.handle(Synced(resource, frozenset(), "10"))
    assert not view.unreadable()


def test_a_slice_that_could_not_be_decoded_last_can_be_deleted() -> None:
    view = followed()
    assert view.handle(Removed(RESOURCE_SLICES, UNREADABLE))
    assert known(view)[1] == []


def test_a_list_is_the_truth_after_the_api_was_restored_from_a_backup() -> None:
    view = followed()
    older = part("s", 3)
    assert not view.handle(Upserted(RESOURCE_SLICES, older))
    view.handle(Restored(RESOURCE_SLICES))
    assert view.handle(Upserted(RESOURCE_SLICES, older))
    assert known(view)[1] == [older]


def test_what_a_later_list_has_is_the_truth_although_its_version_is_an_earlier_one() -> None:
    """Lists have later versions after ``etcdutl snapshot restore --bump-revision``, and objects those of the backup."""
    view = followed()
    older = part("s", 3)
    assert not view.handle(Upserted(RESOURCE_SLICES, older, "4")), "the list is older than what is known"
    assert view.handle(Upserted(RESOURCE_SLICES, older, "1009"))
    assert known(view)[1] == [older]


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [
        ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "0"}, True),
        ({"example.com/card": "2"}, {"example.com/card": "0"}, True),
        ({"example.com/card": "2", "cpu": "8"}, {"example.com/card": "2", "cpu": "7"}, False),
    ],
)
def test_a_count_of_a_device_plugin_matters_whoever_serves_it_here(
    before: Object, after: Object, matters: bool
) -> None:
    view = followed()
    metadata = {"name": "n1", "uid": "u", "labels": {"a": "b"}}
    for version, capacity, expected in (("2", before, True), ("3", after, matters)):
        node = {"metadata": {**metadata, "resourceVersion": version}, "status": {"capacity": capacity}}
        assert view.handle(Upserted(NODES, node)) is expected
