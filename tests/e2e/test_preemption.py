"""Preemption on a real cluster: kubelets end the victims, and what these leave goes to whom it was freed for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.e2e import flavors
from tests.e2e.client import Client, Object, eventually, names
from tests.e2e.pods import pod, request, template
from tests.e2e.test_few_nodes import existing

PREEMPTION: Final = Path(__file__).parent / "preemption"
FOUR, EIGHT = "a100x4", "h100x8"
"""Profiles of the workers with four cards and with eight."""
DEAF: Final = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
"""A command that ends at SIGKILL only."""
GRACE: Final = 10
MADE_ANEW: Final = 60
"""Seconds after which victims that outlast their grace period count no more."""


@pytest.fixture(scope="module", autouse=True)
def preemption_is_on(client: Client) -> Iterator[None]:
    """Install the flavor, and the default flavor again afterwards."""
    flavors.install(client, PREEMPTION)
    yield
    flavors.install(client, flavors.CONTROLLER_ALLOCATED, PREEMPTION)


@contextmanager
def priority(client: Client, name: str, value: int) -> Iterator[str]:
    """A PriorityClass; its name."""
    with existing(client, "scheduling.k8s.io/v1", "PriorityClass", name, value=value):
        yield name


def victim(name: str, grace: int) -> Object:
    """A pod without a priority on the worker with four cards, that does not end before its grace period is over."""
    made = pod(name, "card", profile=FOUR, terminationGracePeriodSeconds=grace)
    made["spec"]["containers"][0]["command"] = DEAF
    return made


def runs(client: Client, namespace: str, name: str) -> bool:
    """Whether the API says that the container of the pod runs."""
    statuses = client.get("pods", name, namespace)["status"].get("containerStatuses") or []
    return bool(statuses) and all("running" in one["state"] for one in statuses)


def preempted(client: Client, namespace: str) -> list[str]:
    """The pods of the namespace that have the Event of an eviction."""
    events = client.list("events", namespace)
    return sorted({one["involvedObject"]["name"] for one in events if one["reason"] == "Preempted"})


def test_an_important_pod_runs_as_soon_as_the_grace_period_of_its_victims_is_over(
    client: Client, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured from before the request that creates the pod until the API says that its container runs."""
    four = [victim(f"small-{number}", GRACE) for number in range(4)]
    client.create(namespace, template("card", request()), template("cards", request(count=4)), *four)
    client.wait_until_ready(namespace)
    with priority(client, f"{namespace}-high", 1000) as high:
        important = pod("important", "cards", profile=FOUR, priorityClassName=high)
        begun = time.monotonic()
        client.create(namespace, important)
        eventually("it runs", lambda: runs(client, namespace, "important"), pause=0.05)
        took = time.monotonic() - begun
        with capsys.disabled():
            print(f"\nthe important pod ran after {took:.2f} s; the grace period of its victims is {GRACE} s")
        assert preempted(client, namespace) == [f"small-{number}" for number in range(4)]
        assert GRACE <= took < GRACE + MADE_ANEW
        client.delete(namespace, "pod", "important")


def test_a_gang_of_four_preempts_three_small_pods_and_nothing_else(client: Client, namespace: str) -> None:
    small = [f"small-{number}" for number in range(3)]
    others = [f"other-{number}" for number in range(2)]
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": "train", "minAvailable": 4},
    }
    config = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    client.create(
        namespace,
        template("card", request()),
        template("member", request(), config=config),
        *(victim(name, 1) for name in small),
        *(pod(name, "card", profile=EIGHT) for name in others),
    )
    client.wait_until_ready(namespace)
    before = {name: client.get("pods", name, namespace)["metadata"]["uid"] for name in others}
    with priority(client, f"{namespace}-high", 1000) as high:
        members = [f"train-{number}" for number in range(4)]
        client.create(namespace, *(pod(name, "member", profile=FOUR, priorityClassName=high) for name in members))
        client.wait_until_ready(namespace, *members)
        assert preempted(client, namespace) == small
        assert sorted(names(client.list("pods", namespace))) == sorted([*others, *members])
        for name, uid in before.items():
            there = client.get("pods", name, namespace)
            assert (there["metadata"]["uid"], there["metadata"].get("deletionTimestamp")) == (uid, None)
        cards = [card for name in members for card in client.devices(namespace, name)]
        assert len(set(cards)) == 4
        client.delete(namespace, "pods", *members)
