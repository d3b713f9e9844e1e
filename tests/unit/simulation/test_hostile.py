"""Hostile objects are served in lists and watches in the order of versions, and nobody can write to them."""

import random
from functools import partial

import pytest

from driver.kube.api import NODES, PODS, NotFound, Undecoded
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Reflector, Removed, Synced, Upserted
from tests.unit.simulation.reached_api import ReachedApi


def text(inner: bytes, version: str, name: str = "odd") -> bytes:
    identity = b'"name":"%s","namespace":"hostile","uid":"u","resourceVersion":"%s"' % (name.encode(), version.encode())
    return b'{"metadata":{%s},"spec":%s}' % (identity, inner)


@pytest.fixture
def scene() -> ReachedApi:
    """With one stored node."""
    made = ReachedApi()
    made.memory.create(NODES, {"metadata": {"name": "n1"}})
    return made


def test_a_list_has_what_is_stored_and_what_is_hostile(scene: ReachedApi) -> None:
    scene.hostile.put(NODES, "odd", partial(text, b"[" * 20_000 + b"]" * 20_000))
    assert [object_key(one) for one in scene.api.list(NODES).items] == ["n1", "hostile/odd"]
    assert scene.api.list(PODS).items == []
    assert scene.log.writes[NODES] == 1


def test_the_first_pages_of_a_list_have_only_what_is_stored(scene: ReachedApi) -> None:
    scene.memory.create(NODES, {"metadata": {"name": "n2"}})
    scene.hostile.put(NODES, "odd", partial(text, b"{}"))
    first = scene.api.list(NODES, limit=1)
    scene.hostile.remove(NODES, "odd")
    rest = scene.api.list(NODES, limit=1, continue_token=first.continue_token)
    assert [len(first.items), len(rest.items)] == [1, 2], "the list is that of its first page"
    assert len(scene.api.list(NODES).items) == 2


@pytest.mark.parametrize("seed", range(20))
def test_who_watches_knows_what_who_lists_knows(scene: ReachedApi, seed: int) -> None:
    chance, known = random.Random(seed), set[str]()

    def take(delta: Delta) -> None:
        match delta:
            case Upserted(object=obj):
                known.add(object_key(obj))
            case Removed(object=obj):
                known.discard(object_key(obj))
            case Synced(keys=keys):
                known.intersection_update(keys)

    watch = Reflector(scene.api, PODS, take)
    for number in range(30):
        there = [name for kind, name in scene.hostile.all() if kind == PODS]
        match chance.randrange(4):
            case 0:
                scene.hostile.put(PODS, f"odd-{number}", partial(text, b"1e400", name=f"odd-{number}"))
            case 1 if there:
                scene.hostile.remove(PODS, chance.choice(there))
            case 2:
                body = {"metadata": {"name": f"p-{number}", "namespace": "default"}}
                scene.memory.create(PODS, {**body, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            case _:
                watch.step()
    watch.step()
    watch.step()
    assert known == {object_key(one) for one in scene.api.list(PODS).items}


def test_who_writes_to_a_hostile_object_finds_it_deleted(scene: ReachedApi) -> None:
    scene.hostile.put(PODS, "odd", partial(text, b'"\\ud800"'))
    assert scene.api.get(PODS, "odd", "hostile")["spec"] == "\ufffd"
    with pytest.raises(NotFound):
        scene.api.patch(PODS, "odd", {}, namespace="hostile")
    assert scene.hostile.all() == []
    with pytest.raises(NotFound):
        scene.api.get(PODS, "odd", "hostile")


def test_an_object_that_is_no_json_is_known_by_its_name(scene: ReachedApi) -> None:
    scene.hostile.put(PODS, "odd", partial(text, b"?"))
    assert isinstance(scene.api.get(PODS, "odd", "hostile"), Undecoded)
