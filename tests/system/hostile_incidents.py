"""Hostile objects that somebody makes, makes again and deletes, in a history. Nobody else may notice."""

import copy
import random
from functools import partial
from typing import Any, Final

from driver.kube.api import DEVICE_TAINT_RULES, NODES, RESOURCE_QUOTAS, RESOURCE_SLICES, STATEFUL_SETS, Object, Resource
from tests.fuzz.hostile import Path, encoded, mutated
from tests.fuzz.scene import CUSTOM, SCENE, kept
from tests.fuzz.source import Source
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.hostile import NAMESPACE

SEEDS = 0.125
"""In how many histories there are hostile objects."""
HAPPENS = 0.4
"""How often one of them is made, made again or deleted after an action, in such a history."""
MOST = 6
"""Objects at a time."""
OPTIONAL: Final = (*CUSTOM, STATEFUL_SETS)
"""Kinds that the API serves in such a history besides."""
NOBODYS_DEVICE: Final = "nobodys"
"""The device that hostile claims hold: what holds a card of somebody is in use, whoever wrote the rest of it."""
_BYTES: Final = 80
_SEALED: Final[dict[Resource, tuple[Path, ...]]] = {
    NODES: (("spec",), ("spec", "unschedulable")),
    RESOURCE_SLICES: (("spec",), ("spec", "driver"), ("spec", "pool"), ("spec", "pool", "name")),
}
"""What stays as it is: no pod may go to a node that is none, and drivers write slices of their own devices alone."""


def happen(seed: int) -> bool:
    """Whether the history of this seed has hostile objects."""
    return random.Random(f"hostile users of {seed}").random() < SEEDS


class HostileIncidents:
    """The hostile objects of one seed. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"hostile in {seed}")
        self._cluster = cluster
        self._happen = happen(seed)
        self._made = 0

    def act(self) -> None:
        """Perhaps make or delete a hostile object."""
        if not self._happen or self._random.random() >= HAPPENS:
            return
        there = self._cluster.hostile.all()
        if len(there) < MOST and self._random.random() < 0.5:
            self._made += 1
            self._put(*self._random.choice(_SCENE), f"odd-{self._made}")
        elif there:
            resource, name = self._random.choice(there)
            if self._random.random() < 0.5:
                self._cluster.hostile.remove(resource, name)
            else:
                self._put(resource, self._random.choice([obj for kind, obj in _SCENE if kind == resource]), name)

    def _put(self, resource: Resource, base: Object, name: str) -> None:
        obj = copy.deepcopy(base)
        # With the uid of one that was read, what was read would count, which a controller that starts now cannot know.
        uid = f"{self._random.getrandbits(128):032x}"
        obj["metadata"] |= {"name": name, "uid": uid, **({"namespace": NAMESPACE} if resource.namespaced else {})}
        obj = {"metadata": obj.pop("metadata"), **obj}
        sealed = _SEALED.get(resource, ())
        source = Source(self._random.randbytes(_BYTES))
        changed = mutated(obj, source, lambda path: kept(path) or path in sealed)
        if encoded(changed) != b"{}":
            self._cluster.hostile.put(resource, name, partial(_text, changed))


def _text(obj: Any, version: str) -> bytes:
    return encoded({**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})


def _harmless(resource: Resource, obj: Object) -> Object:
    """The object with what its owner may have: no card of others, no node that takes pods."""
    obj = copy.deepcopy(obj)
    obj["metadata"].pop("namespace")
    if resource == NODES:
        obj["spec"]["unschedulable"] = True
    for result in ((obj.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ()):
        result["device"] = NOBODYS_DEVICE
    return obj


_SCENE: Final = [
    (resource, _harmless(resource, obj))
    for resource, obj in SCENE
    # A rule that nobody can read stops all decisions: what it drains must not be handed out. Quotas have incidents of
    # their own.
    if resource not in (DEVICE_TAINT_RULES, RESOURCE_QUOTAS)
]
