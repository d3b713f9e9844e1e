"""The garbage collector: deletes objects whose owner was deleted."""

from collections.abc import Callable

from driver.clock import Clock
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.objects import is_deleting, name_key
from memoryapi import JOBS
from simulation.kubernetes.component import FakeComponent, WorkKey, delete_by_uid, get_or_none

DEPENDENTS = {"claim": RESOURCE_CLAIMS, "pod": PODS, "slice": RESOURCE_SLICES}
OWNERS = {"Pod": PODS, "Job": JOBS, "Node": NODES}


class GarbageCollector(FakeComponent):
    """Deletes objects whose owners were all deleted or replaced."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._caches = {
            kind: self.watch(resource, self._dependent_changed(kind)) for kind, resource in DEPENDENTS.items()
        }
        for resource in (JOBS, NODES):
            self.watch(resource, self._owner_changed)

    def _dependent_changed(self, kind: str) -> Callable[[Object], None]:
        def changed(obj: Object) -> None:
            self.queue.add((kind, *name_key(obj)))
            self._owner_changed(obj)

        return changed

    def _owner_changed(self, owner: Object) -> None:
        for kind, cache in self._caches.items():
            for obj in cache.all():
                if any(o["uid"] == owner["metadata"]["uid"] for o in obj["metadata"].get("ownerReferences") or []):
                    self.queue.add((kind, *name_key(obj)))

    def reconcile(self, key: WorkKey) -> None:
        """Delete the object if none of its owners exists."""
        kind, namespace, name = key
        obj = self._caches[kind].get(namespace, name)
        owners = (obj or {"metadata": {}})["metadata"].get("ownerReferences") or []
        if obj is None or not owners or is_deleting(obj):
            return
        if not any(self._exists(owner, namespace) for owner in owners if owner["kind"] in OWNERS):
            delete_by_uid(self.api, DEPENDENTS[kind], obj)

    def _exists(self, owner: Object, namespace: str) -> bool:
        resource = OWNERS[owner["kind"]]
        current = get_or_none(self.api, resource, namespace if resource.namespaced else "", owner["name"])
        return current is not None and current["metadata"]["uid"] == owner["uid"]
