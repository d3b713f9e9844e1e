"""No card is ever handed out twice: pods of two, two and four cards in every order and rhythm, and one pod too many."""

import itertools
import time

import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.controller import usage_is_what_the_claims_say
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

EIGHT, FOUR = "h100x8", "a100x4"
ORDERS = [tuple(it) for it in itertools.permutations([("a", 2), ("b", 2), ("c", 4)])]


def create(client: Client, space: str, profile: str, **cards: int) -> None:
    objects = [pod(name, f"cards-{count}", profile=profile) for name, count in cards.items()]
    client.apply(space, *(template(f"cards-{count}", request(count=count)) for count in set(cards.values())))
    client.create(space, *objects)


def devices(client: Client, space: str, name: str, count: int) -> set[str]:
    """The devices of a pod, once it has as many as it asked for."""

    def look() -> set[str]:
        found = client.devices(space, name)
        assert len(found) == count
        return found

    return eventually(f"{name} has {count} devices", look)


def check_one_too_many(client: Client, space: str, profile: str, freed_by: str) -> None:
    """With every card held, one more pod waits and is told why; it gets a card of the pod that goes."""
    create(client, space, profile, late=1)
    said = eventually("the late pod is told why it waits", lambda: complaint(client, space, "late"))
    assert "gpu-0" in said or "in use" in said or "allocated" in said, said
    assert client.devices(space, "late") == set()
    owned = client.devices(space, freed_by)
    client.delete(space, "pod", freed_by, wait=False)
    assert devices(client, space, "late", 1) <= owned


def complaint(client: Client, space: str, name: str) -> str:
    """The condition PodScheduled=False of a pod that waits for us, once the controller has said why."""
    conditions = client.get("pod", name, space)["status"].get("conditions", [])
    said = [it.get("message", "") for it in conditions if it["type"] == "PodScheduled" and it["status"] == "False"]
    events = client.list("events", space, f"--field-selector=involvedObject.name={name}")
    return "\n".join([*said, *(event["message"] for event in events)]) if events else ""


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(name + str(count) for name, count in order))
def test_batches_in_every_order_get_cards_of_their_own(
    client: Client, space: str, watcher: Watcher, order: tuple[tuple[str, int], ...]
) -> None:
    held: set[str] = set()
    for name, count in order:
        create(client, space, EIGHT, **{name: count})
        found = devices(client, space, name, count)
        assert not held & found
        held |= found
    assert len(held) == 8
    usage_is_what_the_claims_say(client, watcher)
    check_one_too_many(client, space, EIGHT, freed_by="b")
    client.wait_until_ready(space, *(name for name, _ in order if name != "b"), "late")
    usage_is_what_the_claims_say(client, watcher)


def test_all_at_once_get_cards_of_their_own(client: Client, space: str, watcher: Watcher) -> None:
    create(client, space, EIGHT, a=2, b=2, c=4)
    client.wait_until_ready(space)
    held = [client.devices(space, name) for name in "abc"]
    assert [len(it) for it in held] == [2, 2, 4]
    assert len(set().union(*held)) == 8
    usage_is_what_the_claims_say(client, watcher)


@pytest.mark.parametrize("gap", [0, 0.01, 1, 3])
def test_four_pods_of_one_card_get_four_cards(client: Client, space: str, watcher: Watcher, gap: float) -> None:
    client.apply(space, template("cards-1", request()))
    names = ["a", "b", "c", "d"]
    if gap == 0:
        client.create(space, *(pod(name, "cards-1", profile=FOUR) for name in names))
    else:
        for name in names:
            client.create(space, pod(name, "cards-1", profile=FOUR))
            time.sleep(gap)
    held = [devices(client, space, name, 1) for name in names]
    assert len(set().union(*held)) == 4
    check_one_too_many(client, space, FOUR, freed_by="c")
    client.wait_until_ready(space, "a", "b", "d", "late")
    usage_is_what_the_claims_say(client, watcher)
