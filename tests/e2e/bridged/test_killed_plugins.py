"""The device plugin of a vendor and ours are killed at random while pods come and go: no device is in two hands.

What containers have is seen from their processes, so a pod counts until the last of its containers has ended. What
claims have is seen from the claims, after each event by the watcher.
"""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from testclusters.commands import CommandFailed
from tests.e2e.bridged import vendor_plugin
from tests.e2e.bridged.offered import cards, devices, served
from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.flavors import wait_until_installed
from tests.e2e.nodes import PLUGIN_NAMESPACE, PLUGINS, on_workers, pod_of, thaw
from tests.e2e.pods import pod
from tests.e2e.watcher import Watcher

SECONDS = float(os.environ.get("LODE_CHURN_SECONDS", "60"))
"""How long pods come and go."""
SEED = int(os.environ.get("LODE_CHURN_SEED", "7"))
_PODS = 6
"""Pods at a time; together they want more devices than there are."""
_VENDORS = "plugin=amd"
_SCAN = """
for process in /proc/[0-9]*; do
  files=$(ls $process/root/dev/dri 2>/dev/null) && echo $(head -n 1 $process/cgroup) $files
done"""
_CARD = re.compile(r"\bcard(\d+)")

Hands = dict[tuple[str, str], frozenset[str]]
"""The IDs that a container of a pod has on a node, by the node and the uid of the pod."""


def in_containers(client: Client) -> Hands:
    """The devices that processes of containers have, on all workers."""
    found: dict[tuple[str, str], set[str]] = {}
    for node, printed in on_workers(client, _SCAN).items():
        for line in printed.splitlines():
            ids = {vendor_plugin.IDS[int(number)] for number in _CARD.findall(line)}
            found.setdefault((node, pod_of(line)), set()).update(ids)
    return {key: frozenset(ids) for key, ids in found.items()}


@dataclass
class Churn:
    """Pods with claims for one or two devices, and the device plugins of both that are killed."""

    client: Client
    namespace: str
    nodes: tuple[str, ...]
    random: Random
    made: int = 0
    ran: set[str] = field(default_factory=set)
    """The uids of the pods whose containers have been seen with devices."""
    kills: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    compared: int = 0
    """How often the devices of a container were compared with those of its claim."""

    def step(self) -> None:
        """Pods end and begin, somebody may be killed, and then it is seen whose hands the devices are in."""
        thaw(self.client)
        alive = [it for it in self._pods() if "deletionTimestamp" not in it["metadata"]]
        running = [it["metadata"]["name"] for it in alive if it["status"].get("phase") == "Running"]
        ended = self.random.sample(running, min(len(running), self.random.choice((0, 1, 1, 2))))
        if ended:
            self.client.delete(self.namespace, "pods", *ended, wait=False)
        new = [f"churn-{self.made + number}" for number in range(_PODS - len(alive) + len(ended))]
        self.made += len(new)
        if new:
            wanted = ("one", "one", "both")
            self.client.create(self.namespace, *(pod(name, self.random.choice(wanted)) for name in new))
        if self.random.random() < 0.5:
            self._kill(*self.random.choice((("vendor's",), ("ours",), ("vendor's", "ours"))))
        self.revive()
        self.look()

    def look(self) -> None:
        """No device is with the containers of two pods, and each container has the devices of its pod's claim.

        What holds for a moment only, such as a container that has ended since, is seen once and does not count.
        """
        before, first = self._claimed(), in_containers(self.client)
        second, after = in_containers(self.client), self._claimed()
        hands = {key: first[key] & second[key] for key in first.keys() & second.keys()}
        owners: dict[tuple[str, str], str] = {}
        for (node, uid), ids in hands.items():
            self.ran.add(uid)
            for device in ids:
                other = owners.setdefault((node, device), uid)
                assert other == uid, f"device {device} of {node} is with the pods {other} and {uid}: {hands}"
            if uid in before and before[uid] == after.get(uid):
                assert before[uid] == {(node, device) for device in ids}, (uid, node, ids, before[uid])
                self.compared += 1
        self.looks += 1

    def stop(self) -> None:
        """All pods are deleted, and everybody runs again."""
        names = [it["metadata"]["name"] for it in self._pods()]
        self.client.delete(self.namespace, "pods", *names, wait=False)

        def ended() -> bool:
            thaw(self.client)
            self.revive()
            return not self._pods()

        eventually("all pods have ended", ended)
        wait_until_installed(self.client)

    def _pods(self) -> list[Object]:
        listed = self.client.list("pods", self.namespace)
        return [it for it in listed if it["metadata"]["name"].startswith("churn-")]

    def _claimed(self) -> dict[str, set[tuple[str, str]]]:
        """The devices of each pod's claim, by the uid of the pod: the node and the ID."""
        ids = {
            (node, device["name"]): device["attributes"]["deviceID"]["string"]
            for node in self.nodes
            for device in devices(self.client, node)
        }
        found: dict[str, set[tuple[str, str]]] = {}
        for claim in self.client.list("resourceclaims", self.namespace):
            for user in (claim.get("status") or {}).get("reservedFor", ()):
                held = found.setdefault(user["uid"], set())
                for result in results(claim):
                    node, name = result["pool"].partition("/")[0], str(result["device"])
                    held.add((node, ids.get((node, name), name)))
        return found

    def _kill(self, *whose: str) -> None:
        node = self.random.choice(self.nodes)
        for one in whose:
            space, label = (self.namespace, _VENDORS) if one == "vendor's" else (PLUGIN_NAMESPACE, PLUGINS)
            for victim in self.client.list("pods", space, labels=label, fields=f"spec.nodeName={node}"):
                for status in victim["status"].get("containerStatuses", ()):
                    identity = status.get("containerID", "").removeprefix("containerd://")
                    kill = ("ctr", "-n", "k8s.io", "task", "kill", "-s", "KILL", identity)
                    if identity and self.client.cluster.node_exec(node, *kill, check=False).returncode == 0:
                        self.kills[one] += 1

    def revive(self) -> None:
        """Bring the pods of both back, as DaemonSets do, without the time that the kubelet waits before a restart."""
        vendors = self.client.list("pods", self.namespace, labels=_VENDORS)
        for space, pods in (
            (self.namespace, vendors),
            (PLUGIN_NAMESPACE, self.client.list("pods", PLUGIN_NAMESPACE, labels=PLUGINS)),
        ):
            if waiting := [it["metadata"]["name"] for it in pods if _is_put_off(it)]:
                self._delete(space, *waiting)
        there = {it["spec"].get("nodeName") for it in vendors}
        if missing := [node for node in self.nodes if node not in there]:
            new = (vendor_plugin.pod("amd", node, vendor_plugin.OURS) for node in missing)
            self.client.create(self.namespace, *new)

    def _delete(self, namespace: str, *names: str) -> None:
        at_once = ("--force", "--grace-period=0", "--ignore-not-found", "--wait=false")
        self.client.kubectl("delete", "pods", f"--namespace={namespace}", *names, *at_once)


def _is_put_off(victim: Object) -> bool:
    """Whether the kubelet waits before it starts a container again."""
    states = [status.get("state", {}) for status in victim["status"].get("containerStatuses", ())]
    return any(state.get("waiting", {}).get("reason") == "CrashLoopBackOff" for state in states)


@pytest.mark.release
@pytest.mark.usefixtures("bridging")
@pytest.mark.timeout(SECONDS + 900)
def test_no_device_is_given_twice_while_the_vendors_plugin_and_ours_are_killed(
    client: Client, watcher: Watcher, namespace: str
) -> None:
    _, *nodes = client.cluster.workers
    client.create(namespace, cards("amd", 1, name="one"), cards("amd", 2, name="both"))
    served(client, namespace, watcher, "amd", *nodes)
    churn = Churn(client, namespace, tuple(nodes), Random(SEED))
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            churn.step()
        except CommandFailed as error:  # what a command is for may be gone
            print(error)
        time.sleep(churn.random.uniform(0, 2))
    churn.stop()
    print(f"{dict(churn.kills)} killed, {churn.made} pods made, {len(churn.ran)} have run, looked {churn.looks} times,")
    print(f"compared {churn.compared} containers with their claims")
    assert churn.kills.keys() == {"ours", "vendor's"}
    assert len(churn.ran) >= SECONDS / 10, churn.ran
    assert churn.compared >= SECONDS / 10, churn.compared
    client.create(namespace, *(pod(f"last-{number}", "one") for number in range(4)))
    names = [f"last-{number}" for number in range(4)]
    client.wait_until_ready(namespace, *names, before_check=churn.revive)
    assert len({device for name in names for device in client.devices(namespace, name)}) == 4
    churn.look()
