"""An autoscaler that makes a node for pods that none takes, and deletes empty nodes, as Karpenter does.

What it knows of devices is what Karpenter simulates: whole cards without counters. It looks at the condition of a pod
and not at its gates, and counts every allocated device as taken and every allocated claim as available everywhere.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from driver.clock import Clock
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, name_key
from simulation.kubernetes.component import FakeComponent, WorkKey
from tests.simulation.node_write_checks import DO_NOT_DISRUPT
from tests.simulation.write_checks import asks_for_node

IDLE_SECONDS: Final = 1.0
"""Time in which pods are collected before nodes are made."""
LOOP_SECONDS: Final = 10.0
NOMINATED_SECONDS: Final = 20.0
"""How long an empty node is kept that pods are expected on."""
VALIDATED_SECONDS: Final = 15.0
"""How long a node has to stay empty after it was chosen."""
TAINT: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


@dataclass(slots=True)
class Machines:
    """What outlives the program: the machines, and what was done with them.

    Attributes:
        cards: of a new machine.
        empty_seconds: how long a node has to be empty before it is chosen.
        make: makes a machine with a Node object of this name.
        remove: removes machine and Node object.
        choose: told the name of a node that is about to be deleted.
        made: the pods (uids) for which each node was made.
    """

    cards: int
    empty_seconds: float
    make: Callable[[str], None]
    remove: Callable[[str], None]
    choose: Callable[[str], None]
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Karpenter(FakeComponent):
    """The autoscaler. Whom it expects on which node, and since when nodes are empty, is forgotten when it dies."""

    def __init__(self, api: Api, clock: Clock, machines: Machines):
        super().__init__(api, clock)
        self._machines = machines
        self._pods = self.watch(PODS, self._pod_changed)
        self._claims = self.watch(RESOURCE_CLAIMS, lambda _: None)
        self._slices = self.watch(RESOURCE_SLICES, lambda _: None)
        self._nodes = self.watch(NODES, lambda _: None)
        self._expected: dict[str, float] = {}
        """When each node was last expected to get a pod."""
        self._empty: dict[str, float] = {}
        """Since when each node is empty."""
        self.queue.add(("provision",), LOOP_SECONDS)
        self.queue.add(("disrupt",), LOOP_SECONDS)

    def _pod_changed(self, pod: Object) -> None:
        if asks_for_node(pod):
            self.queue.add(("provision",), IDLE_SECONDS)

    def reconcile(self, key: WorkKey) -> None:
        """Make nodes, or delete empty ones."""
        self.queue.add(key, LOOP_SECONDS)
        if key == ("provision",):
            self._provision()
        else:
            self._disrupt()

    # Making nodes

    def _provision(self) -> None:
        now = self.clock.monotonic()
        free = {node: self._free(node) for node in self._there()}
        wanted: list[tuple[int, list[str]]] = []
        for pod in sorted(filter(self._waits, self._pods.all()), key=lambda one: name_key(one)):
            need = self._need(pod)
            if need is None or need > self._machines.cards:
                continue
            place = next((node for node in free if free[node] >= need), None)
            if place is not None:
                free[place] -= need
                self._expected[place] = now
                continue
            at = next((at for at, (left, _) in enumerate(wanted) if left >= need), len(wanted))
            left, pods = wanted[at] if at < len(wanted) else (self._machines.cards, [])
            wanted[at : at + 1] = [(left - need, [*pods, pod["metadata"]["uid"]])]
        for _, pods in wanted:
            name = f"k{len(self._machines.made) + 1}"
            self._machines.made[name] = tuple(pods)
            self._expected[name] = now
            self._machines.make(name)

    @staticmethod
    def _waits(pod: Object) -> bool:
        gone = is_deleting(pod) or is_terminal(pod)
        return asks_for_node(pod) and not (
            gone or pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName")
        )

    def _need(self, pod: Object) -> int | None:
        """The cards that the pod has yet to get; None if a claim does not exist yet."""
        need = 0
        for entry in pod["spec"].get("resourceClaims") or ():
            claim = self._claims.get(name_key(pod)[0], claim_name(pod, entry))
            if claim is None:
                return None
            if not (claim.get("status") or {}).get("allocation"):
                need += sum(int(one["exactly"].get("count", 1)) for one in claim["spec"]["devices"]["requests"])
        return need

    def _there(self) -> Iterator[str]:
        for node in self._nodes.all():
            if not is_deleting(node) and TAINT not in (node["spec"].get("taints") or ()):
                yield node["metadata"]["name"]

    def _published(self, node: str) -> int:
        return sum(
            len(one["spec"].get("devices") or ()) for one in self._slices.all() if one["spec"]["nodeName"] == node
        )

    def _free(self, node: str) -> int:
        """The cards that a node has left; all of a new machine's until it has published them."""
        if not self._published(node):
            return self._machines.cards if node in self._machines.made else 0
        taken = [
            result
            for claim in self._claims.all()
            if (allocation := (claim.get("status") or {}).get("allocation"))
            for result in allocation["devices"]["results"]
            if result["pool"].partition("/")[0] == node
        ]
        return self._published(node) - len(taken)

    # Deleting nodes

    def _disrupt(self) -> None:
        now = self.clock.monotonic()
        empty = [node for node in self._machines.made if self._is_empty(node, now)]
        self._empty = {node: self._empty.get(node, now) for node in empty}
        closed = [node for node in self._machines.made if self._is_closed(node)]
        for node, since in self._empty.items():
            if node not in closed and now - since >= self._machines.empty_seconds + VALIDATED_SECONDS:
                self._close(node)
        for node in closed:
            self._delete(node)

    def _is_empty(self, name: str, now: float) -> bool:
        node = self._nodes.get("", name)
        expected = self._expected.get(name)
        return (
            node is not None
            and not is_deleting(node)
            and bool(self._published(name))
            and (node["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) != "true"
            and not (expected is not None and now - expected < NOMINATED_SECONDS)
            and not any(pod["spec"].get("nodeName") == name and not is_terminal(pod) for pod in self._pods.all())
        )

    def _is_closed(self, name: str) -> bool:
        node = self._nodes.get("", name)
        return node is not None and TAINT in (node["spec"].get("taints") or ())

    def _close(self, name: str) -> None:
        """Let no further pod come to the node, which is deleted in the next loop."""
        self._machines.choose(name)
        taints = self.api.get(NODES, name)["spec"].get("taints") or ()
        self.api.patch(NODES, name, {"spec": {"taints": [*taints, TAINT]}})

    def _delete(self, name: str) -> None:
        """Delete the node, whatever its annotations say by now; open it again if a pod came meanwhile."""
        taints = self.api.get(NODES, name)["spec"].get("taints") or ()
        pods = [pod for pod in self.api.list(PODS).items if not is_terminal(pod)]
        if any(pod["spec"].get("nodeName") == name for pod in pods):
            self.api.patch(NODES, name, {"spec": {"taints": [one for one in taints if one != TAINT]}})
        else:
            self._machines.remove(name)
