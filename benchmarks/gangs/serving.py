"""How long gangs wait if the whole controller serves them: on the API in memory and a virtual clock.

The gangs are those of ``queueing``; one of a single pod is a pod without a gang. A gang that does not fit lets others
pass, until nodes are held back for it (docs/gang-life.md). Who binds pods and ends them is played here; nothing says
before when a gang will end.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from benchmarks.gangs.queueing import Arrival, Shape
from benchmarks.wholeloop import NAMES, WholeLoop
from driver.kube.api import NAMESPACES as KUBE_NAMESPACES
from driver.kube.api import PODS, RESOURCE_CLAIMS
from driver.names import FINALIZER
from driver.settings import Settings

RUN_SECONDS: Final = 3600.0
"""How long a gang runs on average."""
NAMESPACES: Final = 8
"""The gangs come from so many namespaces in turn."""
_LOOK_SECONDS: Final = 30.0
"""A start is noticed so much later at most."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How one gang was served."""

    gang: Arrival
    time: float
    """From its arrival until no member had its gate, in mean run times."""
    passed: int
    """Gangs of its size that came later and started before it."""


class _Cluster(WholeLoop):
    """Nodes on which gangs run."""

    def __init__(self, shape: Shape):
        super().__init__(Settings())
        self._shape = shape
        for number in range(NAMESPACES):
            self.api.create(KUBE_NAMESPACES, {"metadata": {"name": _namespace(number)}})
        for facts in shape.nodes():
            self.add_node(facts.name, facts.labels, shape.cards)
        self.start()

    def add(self, one: Arrival, namespace: str) -> None:
        """Make the pods of a gang, each with a claim for all cards of a node."""
        parameters = {
            "apiVersion": f"{NAMES.driver}/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": one.name, "minAvailable": one.size},
            "topology": [
                {"nodeLabel": level.key, "mode": "required" if level.required else "preferred"}
                for level in self._shape.levels
            ],
        }
        for name in _members(one):
            self.add_pod(name, self._shape.cards, namespace, parameters=parameters if one.size > 1 else None, cpu="4")

    def starts(self, one: Arrival, namespace: str) -> bool:
        """Bind the pods of a gang and let them run, if none has its gate any more."""
        pods = [self.api.get(PODS, name, namespace) for name in _members(one)]
        if any(pod["spec"].get("schedulingGates") for pod in pods):
            return False
        for pod in pods:
            allocation = self.api.get(RESOURCE_CLAIMS, pod["metadata"]["name"], namespace)["status"]["allocation"]
            (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
            (node,) = term["matchFields"][0]["values"]
            self.api.bind(namespace, pod["metadata"]["name"], node)
            bound = self.api.get(PODS, pod["metadata"]["name"], namespace)
            self.api.update(PODS, {**bound, "status": {**bound.get("status", {}), "phase": "Running"}}, "status")
        return True

    def end(self, one: Arrival, namespace: str) -> None:
        """Delete the pods of a gang, and free their claims as kube-controller-manager does."""
        for name in _members(one):
            self.api.delete(PODS, name, namespace, grace_period_seconds=0)
            claim = self.api.get(RESOURCE_CLAIMS, name, namespace)
            freed = self.api.update(RESOURCE_CLAIMS, {**claim, "status": {}}, "status")
            left = [it for it in freed["metadata"].get("finalizers", ()) if it != FINALIZER]
            self.api.update(RESOURCE_CLAIMS, {**freed, "metadata": {**freed["metadata"], "finalizers": left}})
            self.api.delete(RESOURCE_CLAIMS, name, namespace)


def _members(one: Arrival) -> Sequence[str]:
    return [f"{one.name}-{number}" for number in range(one.size)]


def serve(shape: Shape, arrivals: Sequence[Arrival]) -> Sequence[Wait]:
    """Serve the gangs until all have started."""
    cluster, coming = _Cluster(shape), deque(enumerate(arrivals))
    waiting: dict[int, Arrival] = {}
    ends: list[tuple[float, int]] = []
    served: list[Wait] = []
    while coming or waiting:
        now = cluster.clock.monotonic()
        due = min(
            coming[0][1].came * RUN_SECONDS if coming else inf,
            ends[0][0] if ends else inf,
            now + _LOOK_SECONDS if waiting else inf,
        )
        cluster.settle(max(0.0, due - now))
        now = cluster.clock.monotonic()
        while ends and ends[0][0] <= now:
            cluster.end(arrivals[number := heapq.heappop(ends)[1]], _namespace(number))
        while coming and coming[0][1].came * RUN_SECONDS <= now:
            number, one = coming.popleft()
            waiting[number] = one
            cluster.add(one, _namespace(number))
        cluster.settle(1.0)
        now = cluster.clock.monotonic()
        for number, one in tuple(waiting.items()):
            if cluster.starts(one, _namespace(number)):
                del waiting[number]
                heapq.heappush(ends, (now + one.runs * RUN_SECONDS, number))
                passed = sum(other.size == one.size for before, other in waiting.items() if before < number)
                served.append(Wait(one, now / RUN_SECONDS - one.came, passed))
    return served


def _namespace(number: int) -> str:
    return f"team-{number % NAMESPACES}"
