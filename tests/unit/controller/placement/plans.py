"""Places for all pods of a group or none, each beside those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.placement import Nodes, Placement, PodDemand
from driver.errors import Fault


@dataclass(frozen=True)
class Plan:
    """The places of all pods, in their order."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class NoPlan:
    """The first pod without a place, the number of those before it, and the faults of its claims."""

    pod: str
    placed: int = 0
    faults: tuple[Fault, ...] = ()


def plan(pods: Sequence[PodDemand], fleet: Fleet, nodes: Nodes) -> Plan | NoPlan:
    found: list[Placement] = []
    with Cluster.unlimited(fleet, nodes).what_if() as trial:
        for pod in pods:
            answer = trial.schedule(pod)
            if not isinstance(answer, Placement):
                return NoPlan(answer.subject, len(found), answer.faults)
            found.append(answer)
    return Plan(tuple(found))
