"""The Job controller (as many pods at once as completions ask for) and the garbage collector."""

from collections.abc import Callable

from driver.clock import Clock
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from memoryapi import JOBS
from simulation.standins.informed import (
    Key,
    StandIn,
    changed_copy,
    delete_exactly,
    fresh,
    is_deleting,
    is_terminal,
    name_key,
    owner_of,
    phase,
)

DEPENDENTS = {"claim": RESOURCE_CLAIMS, "pod": PODS, "slice": RESOURCE_SLICES}
OWNERS = {"Pod": PODS, "Job": JOBS, "Node": NODES}


class JobController(StandIn):
    """Keeps ``parallelism`` pods of a Job going until ``completions`` have succeeded."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._expected: dict[tuple[str, str], set[str]] = {}
        self._jobs = self.watch(JOBS, lambda job: self.queue.add(("job", *name_key(job))))
        self._pods = self.watch(PODS, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        if owner := owner_of(pod, "Job"):
            key = (pod["metadata"]["namespace"], owner["name"])
            self._expected.get(key, set()).discard(pod["metadata"]["uid"])
            self.queue.add(("job", *key))

    def reconcile(self, key: Key) -> None:
        """Create the pods a Job lacks and write down what it has."""
        job = self._jobs.get(key[1], key[2])
        expected = self._expected.setdefault((key[1], key[2]), set())
        if job is None or is_deleting(job) or expected:
            return
        uid, spec = job["metadata"]["uid"], job["spec"]
        mine = [p for p in self._pods.all() if (o := owner_of(p, "Job")) and o["uid"] == uid]
        succeeded = sum(phase(pod) == "Succeeded" for pod in mine)
        active = sum(not is_terminal(pod) and not is_deleting(pod) for pod in mine)
        status = {"active": active, "succeeded": max(succeeded, (job.get("status") or {}).get("succeeded") or 0)}
        if status != {"active": -1, "succeeded": 0} | (job.get("status") or {}):
            self.api.patch(JOBS, key[2], {"status": status}, namespace=key[1], subresource="status")
        completions = spec.get("completions", 1)
        lacking = min(spec.get("parallelism", 1), completions - status["succeeded"]) - active
        for _ in range(lacking):
            expected.add(self.api.create(PODS, _pod_for(job), key[1])["metadata"]["uid"])


def _pod_for(job: Object) -> Object:
    name, template = job["metadata"]["name"], changed_copy(job["spec"]["template"])
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": job["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), "batch.kubernetes.io/job-name": name},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [
                {
                    "apiVersion": JOBS.api_version,
                    "kind": "Job",
                    "name": name,
                    "uid": job["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template["spec"],
    }


class GarbageCollector(StandIn):
    """Deletes objects whose controlling owner is gone or replaced."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._stores = {kind: self.watch(resource, self._notice(kind)) for kind, resource in DEPENDENTS.items()}
        for resource in (JOBS, NODES):
            self.watch(resource, self._owner_changed)

    def _notice(self, kind: str) -> Callable[[Object], None]:
        def changed(obj: Object) -> None:
            self.queue.add((kind, *name_key(obj)))
            self._owner_changed(obj)

        return changed

    def _owner_changed(self, owner: Object) -> None:
        for kind, store in self._stores.items():
            for obj in store.all():
                if any(o["uid"] == owner["metadata"]["uid"] for o in obj["metadata"].get("ownerReferences") or []):
                    self.queue.add((kind, *name_key(obj)))

    def reconcile(self, key: Key) -> None:
        """Delete the object if its owner is no more."""
        kind, namespace, name = key
        obj = self._stores[kind].get(namespace, name)
        owners = (obj or {"metadata": {}})["metadata"].get("ownerReferences") or []
        if obj is None or not owners or is_deleting(obj):
            return
        if not any(self._lives(owner, namespace) for owner in owners if owner["kind"] in OWNERS):
            delete_exactly(self.api, DEPENDENTS[kind], obj)

    def _lives(self, owner: Object, namespace: str) -> bool:
        resource = OWNERS[owner["kind"]]
        found = fresh(self.api, resource, namespace if resource.namespaced else "", owner["name"])
        return found is not None and found["metadata"]["uid"] == owner["uid"]
