"""No card is allocated twice: pods with two, two and four cards in every order and pace, and one pod too many."""

import itertools
import time

import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.controller import check_usage_matches_claims
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

EIGHT, FOUR = "h100x8", "a100x4"
ORDERS = [tuple(it) for it in itertools.permutations([("a", 2), ("b", 2), ("c", 4)])]


def create(client: Client, namespace: str, profile: str, **cards: int) -> None:
    objects = [pod(name, f"cards-{count}", profile=profile) for name, count in cards.items()]
    client.apply(namespace, *(template(f"cards-{count}", request(count=count)) for count in set(cards.values())))
    client.create(namespace, *objects)


def devices(client: Client, namespace: str, name: str, count: int) -> set[str]:
    """Wait until a pod has ``count`` devices; returns them."""

    def all_devices() -> set[str]:
        allocated = client.devices(namespace, name)
        assert len(allocated) == count
        return allocated

    return eventually(f"{name} has {count} devices", all_devices)


def check_one_pod_too_many(client: Client, namespace: str, profile: str, freed_by: str) -> None:
    """While every card is allocated, one more pod waits with a reason; it gets a card of the pod ``freed_by``."""
    create(client, namespace, profile, late=1)
    reason = eventually("the late pod has a reason", lambda: waiting_reason(client, namespace, "late"))
    assert "gpu-0" in reason or "in use" in reason or "allocated" in reason, reason
    assert client.devices(namespace, "late") == set()
    freed = client.devices(namespace, freed_by)
    client.delete(namespace, "pod", freed_by, wait=False)
    assert devices(client, namespace, "late", 1) <= freed


def waiting_reason(client: Client, namespace: str, name: str) -> str:
    """The condition PodScheduled=False and the events of a waiting pod; "" before the first event."""
    conditions = client.get("pods", name, namespace)["status"].get("conditions", [])
    messages = [it.get("message", "") for it in conditions if it["type"] == "PodScheduled" and it["status"] == "False"]
    events = client.list("events", namespace, fields=f"involvedObject.name={name}")
    return "\n".join([*messages, *(event["message"] for event in events)]) if events else ""


@pytest.mark.parametrize(
    "order",
    [
        # With the names of the two pods of two cards exchanged, it is the same.
        pytest.param(order, marks=[pytest.mark.release] if order.index(("b", 2)) < order.index(("a", 2)) else [])
        for order in ORDERS
    ],
    ids=lambda order: "-".join(name + str(count) for name, count in order),
)
def test_batches_in_any_order_get_different_cards(
    client: Client, namespace: str, watcher: Watcher, order: tuple[tuple[str, int], ...]
) -> None:
    held: set[str] = set()
    for name, count in order:
        create(client, namespace, EIGHT, **{name: count})
        found = devices(client, namespace, name, count)
        assert not held & found
        held |= found
    assert len(held) == 8
    check_usage_matches_claims(client, watcher)
    check_one_pod_too_many(client, namespace, EIGHT, freed_by="b")
    client.wait_until_ready(namespace, *(name for name, _ in order if name != "b"), "late")
    check_usage_matches_claims(client, watcher)


def test_pods_created_at_once_get_different_cards(client: Client, namespace: str, watcher: Watcher) -> None:
    create(client, namespace, EIGHT, a=2, b=2, c=4)
    client.wait_until_ready(namespace)
    held = [client.devices(namespace, name) for name in "abc"]
    assert [len(it) for it in held] == [2, 2, 4]
    assert len(set().union(*held)) == 8
    check_usage_matches_claims(client, watcher)


@pytest.mark.parametrize("gap", [0, 0.01, 1, pytest.param(3, marks=pytest.mark.release)])
def test_four_pods_of_one_card_get_four_cards(client: Client, namespace: str, watcher: Watcher, gap: float) -> None:
    client.apply(namespace, template("cards-1", request()))
    names = ["a", "b", "c", "d"]
    if gap == 0:
        client.create(namespace, *(pod(name, "cards-1", profile=FOUR) for name in names))
    else:
        for name in names:
            client.create(namespace, pod(name, "cards-1", profile=FOUR))
            time.sleep(gap)
    held = [devices(client, namespace, name, 1) for name in names]
    assert len(set().union(*held)) == 4
    check_one_pod_too_many(client, namespace, FOUR, freed_by="c")
    client.wait_until_ready(namespace, "a", "b", "d", "late")
    check_usage_matches_claims(client, watcher)
