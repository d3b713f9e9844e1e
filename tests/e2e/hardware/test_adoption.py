"""A namespace whose pods are adopted, one that stays with the device plugin, and a node that changes hands."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from driver.kube.objects import is_terminal
from tests.e2e import flavors
from tests.e2e.adopted import adopt_from
from tests.e2e.client import Client, Object, eventually_none, results
from tests.e2e.conftest import NAMESPACE_LABEL
from tests.e2e.hardware.conftest import Machines
from tests.e2e.hardware.old_cards import given_out, handed_out, old_pod, whole_cards
from tests.e2e.nodes import with_processes
from tests.e2e.test_cards import lode
from tests.e2e.watcher import Watcher

SECONDS = float(os.environ.get("LODE_CHURN_SECONDS", "60"))
"""How long pods come and go: a minute before a release, an hour with `make adoption-hour`."""
ADOPTION = Path(__file__).parent / "adoption"
_PODS = 6
"""Pods of each namespace at a time; together they want more cards than there are."""


@pytest.fixture
def adopting(client: Client, machines: Machines) -> Iterator[None]:
    """Adoption is installed."""
    flavors.install(client, ADOPTION)
    yield
    flavors.install(client, flavors.VENDORS_LIBRARIES, ADOPTION)


@pytest.fixture
def adopted(client: Client, adopting: None, watcher: Watcher, namespace: str) -> Iterator[str]:
    """A namespace whose pods are adopted."""
    name = f"{namespace}-adopted"
    ((key, value),) = NAMESPACE_LABEL.items()
    client.kubectl("create", "namespace", name)
    client.kubectl("label", "namespace", name, f"{key}={value}")
    adopt_from(client, name, "nvidia")
    yield name
    client.delete(name, "pods")
    eventually_none("no device is held", lambda: watcher.held(name))
    client.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def node(client: Client, machines: Machines, adopted: str, namespace: str) -> Iterator[str]:
    """A node with eight cards that a device plugin hands out."""
    with handed_out(client, machines, namespace) as node:
        yield node


@dataclass
class Churn:
    """Pods with the same resources in both namespaces, which come and go."""

    client: Client
    node: str
    old: str
    """The namespace of the device plugin."""
    adopted: str
    random: Random = field(default_factory=lambda: Random(7))
    made: int = 0
    ran: dict[str, set[str]] = field(default_factory=dict)
    """The uids of the pods that have run, by namespace."""
    looks: int = 0

    def step(self, *growing: str) -> None:
        """Delete a pod of each namespace, make new ones in those that grow, and see whose hands the cards are in."""
        for namespace in (self.old, self.adopted):
            pods = [pod for pod in self._pods(namespace) if "deletionTimestamp" not in pod["metadata"]]
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            self.ran.setdefault(namespace, set()).update(pod["metadata"]["uid"] for pod in running)
            ended = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Failed"]
            if running:
                ended.append(self.random.choice(running)["metadata"]["name"])
            if ended:
                self.client.delete(namespace, "pods", *ended, wait=False)
            if namespace in growing and (missing := _PODS - len(pods) + len(ended)) > 0:
                self.made += missing
                self.client.create(
                    namespace, *(old_pod(f"churn-{number}") for number in range(self.made - missing, self.made))
                )
        self.look()

    def look(self) -> None:
        """No card is given to a container by the kubelet and to a claim at once.

        Claims are read before and after, so a card that changed hands meanwhile does not count. A pod has its cards
        from before its containers start until they have ended, which is before the API says so.
        """
        before, pods = self._claimed(), self._pods(self.old)
        given, alive = given_out(self.client, self.node), with_processes(self.client, self.node)
        for pod in pods:
            if not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]:
                alive.add(pod["metadata"]["uid"])
        old = {uuid for uid in alive for uuid in given.get(uid, ())}
        twice = before & old & self._claimed()
        assert not twice, f"in two hands: {sorted(twice)}; given: {given}; pods of the device plugin: {sorted(alive)}"
        self.looks += 1

    def _claimed(self) -> set[str]:
        uuids = {
            name: card["attributes"]["uuid"]["string"] for name, card in whole_cards(self.client, self.node).items()
        }
        held = [result for it in self.client.list("resourceclaims", self.adopted) for result in results(it)]
        return {uuids[result["device"]] for result in held if result["pool"].startswith(f"{self.node}/")}

    def _pods(self, namespace: str) -> list[Object]:
        return [pod for pod in self.client.list("pods", namespace) if pod["metadata"]["name"].startswith("churn-")]


@pytest.mark.release
@pytest.mark.timeout(SECONDS + 1200)
def test_no_card_is_in_two_hands_while_pods_of_both_come_and_go_and_the_node_changes_hands(
    client: Client, namespace: str, adopted: str, node: str
) -> None:
    churn = Churn(client, node, namespace, adopted)
    deadline, turns = time.monotonic() + SECONDS, 0
    with ThreadPoolExecutor(1) as pool:

        def during(call: "Future[str]", *growing: str) -> None:
            while not call.done():
                churn.step(*growing)
            assert not call.result(), call.result()

        def hand_over(*options: str) -> str:
            """What a person does: call it again while claims that are about to go hold cards."""
            for _ in range(5):
                done = lode(client, "handover", node, "--timeout=110s", *options)
                if done.returncode == 0:
                    return ""
                time.sleep(2)
            return done.stdout + done.stderr

        while time.monotonic() < deadline or not turns:
            for _ in range(5):
                churn.step(namespace, adopted)
            during(pool.submit(hand_over), namespace, adopted)
            for _ in range(5):
                churn.step(adopted)
            client.delete(adopted, "pods")
            during(pool.submit(hand_over, "--back"), namespace)
            turns += 1
    ran = {name: len(churn.ran[name]) for name in (namespace, adopted)}
    print(f"{turns} turns, {churn.made} pods made, {ran} have run, looked {churn.looks} times")
    assert all(count >= 8 for count in ran.values()), ran
