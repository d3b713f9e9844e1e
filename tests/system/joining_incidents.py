"""Claims by name that later pods join, in a history, while their devices are tainted by a rule, fail or are lost."""

import random
from contextlib import suppress
from typing import Final

from driver.kube.api import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, AlreadyExists, NotFound, Object
from driver.kube.objects import is_deleting, is_terminal
from kubeletplugin.publish.publisher import HEALTH_SECONDS
from tests.simulation.cluster import SimulatedCluster
from tests.system.objects import NAMESPACE, REQUESTS, claim, pod, taint_rule

SEEDS: Final = 0.2
"""In how many histories there are such claims."""
HAPPENS: Final = 0.5
"""How often something happens to them after an action, in such a history."""
NAMES: Final = ("joined-0", "joined-1")
WANTED: Final = ("gpu-1", "gpu-1", "gpu-2", "gpu-tolerates-x", "share-small", "mig-small", "npu-1")
MOST_PODS: Final = 6
SECONDS: Final = (0.0, 0.0, 5.0, 2 * HEALTH_SECONDS)
"""How long after a device goes bad the next pod comes: not yet known, or published."""


class JoiningIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        # Of all draws one in which the histories have none that written changes are recorded with.
        self._random = random.Random(f"claims that later pods join 3131 in {seed}")
        self._cluster = cluster
        self._api = cluster.user
        self.happen = self._random.random() < SEEDS
        """Whether there are any."""
        self._count = 0

    def act(self) -> None:
        """Perhaps make such a claim, or let its device go bad or be good again, or a pod of it come or end."""
        if not self.happen or self._random.random() >= HAPPENS:
            return
        acts = (self._make, self._spoil, self._spoil, self._mend, self._join, self._end)
        with suppress(NotFound, AlreadyExists):
            self._random.choice(acts)()

    def undo(self) -> None:
        """No rule taints a device of such a claim; ``Operators.undo`` mends its cards."""
        for name in NAMES:
            self._untaint(name)

    def _make(self) -> None:
        """A claim, and the first pod that uses it."""
        name = self._random.choice(NAMES)
        self._api.create(RESOURCE_CLAIMS, claim(name, REQUESTS[self._random.choice(WANTED)]))
        self._add_pod(name)
        self._cluster.advance(self._random.choice((5.0, 30.0)))

    def _spoil(self) -> None:
        """A device of a claim goes bad, and a pod joins: before anybody knows of it, or after."""
        held = self._held()
        if not held:
            return
        name, (pool, device) = self._random.choice(held)
        node = next((node for node in self._cluster.nodes if self._cluster.names.pool(node) == pool), "")
        card = "-".join(device.split("-")[:2])
        self._cluster.log.note("hardware", f"{pool}/{device} of claim {name} goes bad")
        match self._random.choice(("rule", "rule", "fails", "lost")):
            case "rule":
                self._untaint(name)
                self._api.create(DEVICE_TAINT_RULES, taint_rule(name, pool, device, self._random.choice("xy")))
            case "fails" if node:
                self._cluster.hardware[node].faults[card] = "Xid 79"
            case _ if node:
                self._cluster.hardware[node].lost.add(card)
        self._cluster.advance(self._random.choice(SECONDS))
        self._add_pod(name)

    def _mend(self) -> None:
        """All devices of such claims are good again."""
        self.undo()
        for hardware in self._cluster.hardware.values():
            hardware.faults.clear()
            hardware.lost.clear()

    def _join(self) -> None:
        self._add_pod(self._random.choice(NAMES))

    def _end(self) -> None:
        """A pod that uses such a claim ends, or all of them at once."""
        pods = self._pods()
        for name in pods if self._random.random() < 0.3 else pods[:1]:
            self._api.delete(PODS, name, NAMESPACE)

    def _untaint(self, name: str) -> None:
        with suppress(NotFound):
            self._api.delete(DEVICE_TAINT_RULES, name)

    def _add_pod(self, name: str) -> None:
        if len(self._pods()) < MOST_PODS:
            self._count += 1
            self._api.create(PODS, pod(f"joins-{self._count}-{name}", claim_name=name))

    def _held(self) -> list[tuple[str, tuple[str, str]]]:
        """The claims and the devices that they hold."""
        return [
            (one["metadata"]["name"], (result["pool"], result["device"]))
            for one in self._api.list(RESOURCE_CLAIMS).items
            if one["metadata"]["name"] in NAMES
            for result in _results(one)
        ]

    def _pods(self) -> list[str]:
        pods = [one for one in self._api.list(PODS).items if one["metadata"]["name"].startswith("joins-")]
        return [one["metadata"]["name"] for one in pods if not is_terminal(one) and not is_deleting(one)]


def _results(made: Object) -> list[Object]:
    allocation = (made.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())
