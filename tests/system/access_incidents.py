"""Kinds that the API serves no longer, or in another version, and rights that are taken away, in a history."""

import random
from contextlib import suppress
from typing import Final

from controller.state import DEVICE_TAINT_RULES_BETA
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    AlreadyExists,
)
from tests.simulation.access import Right
from tests.simulation.cluster import SimulatedCluster
from tests.system.hostile_incidents import OPTIONAL
from tests.system.objects import NAMESPACE, REQUESTS, pod, taint_rule
from tests.system.operators import TAINT_RULES

SEEDS: Final = 0.125
"""In how many histories kinds come and go, and in how many rights are taken away."""
HAPPENS: Final = 0.3
"""How often a kind comes or goes after an action, in such a history; and how often a right."""
NEW_GROUP: Final = 0.15
"""How often somebody makes a PodGroup of Volcano after an action, in a history in which kinds come and go."""
RULES: Final = (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
READ: Final = (
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    *RULES,
    NODES,
    PODS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    JOBS,
    LEASES,
)
"""What controllers read, more or less often."""
RIGHTS: Final = (
    *(Right("controller", resource, writes=False) for resource in READ),
    *(Right("controller", resource, writes=True) for resource in (RESOURCE_CLAIMS, PODS, EVENTS, LEASES)),
    *(Right("plugin", resource, writes=False) for resource in (NODES, RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)),
    Right("plugin", RESOURCE_SLICES, writes=True),
)


def kinds_change(seed: int) -> bool:
    """Whether kinds come and go in the history of this seed. Its API serves the ``OPTIONAL`` kinds at first."""
    return random.Random(f"kinds that come and go in {seed}").random() < SEEDS


class AccessIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._kinds = random.Random(f"which kinds come and go in {seed}")
        self._rights = random.Random(f"rights in {seed}")
        self._access = cluster.access
        self._api = cluster.user
        self._names, self._nodes = cluster.names, list(cluster.nodes)
        self._kinds_change = kinds_change(seed)
        self._rights_change = self._rights.random() < SEEDS
        self._groups = 0

    def act(self) -> None:
        """Perhaps let a kind, or a right, come or go."""
        if self._kinds_change and self._kinds.random() < HAPPENS:
            self._change_a_kind()
        if self._kinds_change and self._kinds.random() < NEW_GROUP:
            self._new_group()
        if self._rights_change and self._rights.random() < HAPPENS:
            taken = sorted(self._access.taken, key=str)
            if taken and self._rights.random() < 0.6:
                self._access.give_back(self._rights.choice(taken))
            elif rest := [right for right in RIGHTS if right not in self._access.taken]:
                self._access.take(self._rights.choice(rest))

    def _change_a_kind(self) -> None:
        """A kind comes or goes; half of the time, rules are there and come in another version, as in an upgrade."""
        if self._kinds.random() < 0.5:
            kind = self._kinds.choice((*RULES, *OPTIONAL, VOLCANO_POD_GROUPS))
            self._access.serve(kind, served=not self._access.serves(kind))
            return
        with suppress(AlreadyExists):
            pool = self._names.pool(self._kinds.choice(self._nodes))
            self._api.create(DEVICE_TAINT_RULES, taint_rule(self._kinds.choice(TAINT_RULES), pool))
        served = [kind for kind in RULES if self._access.serves(kind)]
        for kind in RULES if len(served) < len(RULES) else [self._kinds.choice(RULES)]:
            self._access.serve(kind, served=len(served) < len(RULES))

    def _new_group(self) -> None:
        """Two pods that start together, because a PodGroup says so."""
        self._groups += 1
        name, template = f"group-{self._groups}", self._kinds.choice(list(REQUESTS))
        group = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"minMember": 2}}
        self._api.create(VOLCANO_POD_GROUPS, group)
        for number in range(2):
            member = pod(f"{name}-{number}", template_name=template)
            member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
            self._api.create(PODS, member)

    def undo(self) -> None:
        """Every right is given back, and every kind is served, in some version."""
        for right in sorted(self._access.taken, key=str):
            self._access.give_back(right)
        for kind in OPTIONAL if self._kinds_change else ():
            self._access.serve(kind, served=True)
        if not any(map(self._access.serves, RULES)):
            self._access.serve(self._kinds.choice(RULES), served=True)
