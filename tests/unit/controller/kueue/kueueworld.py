"""A cluster with the objects of Kueue. The test does what Kueue does."""

from typing import Any

from driver.clock import rfc3339
from driver.kube.api import (
    JOBS,
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Object,
)
from tests.unit.controller.loop.world import GATE, ControllerWorld
from tests.unit.controller.workloads import CHECK, admission_check, check_state, claim_template, workload


class KueueWorld(ControllerWorld):
    """A world in which AdmissionChecks are answered, with a check of ours, and the template ``gpu`` for one card."""

    custom = (KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS)

    def __init__(self, nodes: int = 1, cards: int = 4, **settings: Any):
        super().__init__(nodes, cards, **{"kueue": {"enabled": True}, **settings})
        self.api.create(RESOURCE_CLAIM_TEMPLATES, claim_template("gpu"))
        self.api.create(KUEUE_ADMISSION_CHECKS, admission_check())

    # Kueue

    def reserve(self, name: str, *pod_sets: Object, **more: Any) -> None:
        """A job waits with a Workload, for which quota is reserved."""
        template = {"spec": {"containers": [{"name": "main"}]}}
        raw: Object = {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template}}
        job = self.api.create(JOBS, raw, "default")
        made = workload(name, *pod_sets, **more)
        made["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
        stored = self.api.create(KUEUE_WORKLOADS, {**made, "status": {}}, "default")
        self.api.update(KUEUE_WORKLOADS, {**stored, "status": made["status"]}, "status")

    def evict(self, name: str) -> None:
        """What Kueue does after a ``Retry`` without a pause: it gives the quota back, and resets the check."""
        found = self.api.get(KUEUE_WORKLOADS, name, "default")
        (check,) = found["status"]["admissionChecks"]
        assert (check["state"], check.get("requeueAfterSeconds")) == ("Retry", None)
        reset = {"message": "Reset to Pending after eviction", "retryCount": check.get("retryCount", 0) + 1}
        self._set(found, "True", {**check_state(**reset), "lastTransitionTime": rfc3339(self.clock.now())})

    def note_pause(self, name: str) -> float:
        """What Kueue does with a ``Retry`` that asks for a pause: it notes when it tries again; the seconds."""
        found = self.api.get(KUEUE_WORKLOADS, name, "default")
        (check,) = found["status"]["admissionChecks"]
        seconds = float(check["requeueAfterSeconds"])
        found["status"]["requeueState"] = {"requeueAt": rfc3339(self.clock.now() + seconds)}
        self.api.update(KUEUE_WORKLOADS, found, "status")
        return seconds

    def reserve_again(self, name: str) -> None:
        """Kueue reserves quota for an evicted Workload once more."""
        found = self.api.get(KUEUE_WORKLOADS, name, "default")
        found["status"]["requeueState"] = {}
        self._set(found, "False", *found["status"]["admissionChecks"])

    def _set(self, found: Object, evicted: str, check: Object) -> None:
        reserved = "False" if evicted == "True" else "True"
        said = {"QuotaReserved": reserved, "Evicted": evicted}
        found["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in said.items()]
        found["status"]["admissionChecks"] = [check]
        self.api.update(KUEUE_WORKLOADS, found, "status")

    def retry(self, name: str) -> float:
        """All that Kueue and the controller do from a ``Retry`` to the next reservation; the pause in seconds."""
        self.settle()
        self.evict(name)
        self.settle()
        pause = 0.0
        if self.answer(name)[0] == "Retry":
            pause = self.note_pause(name)
            self.settle()
        assert self.answer(name)[0] == "Pending"
        self.settle(pause)
        self.reserve_again(name)
        self.settle()
        return pause

    def admit(self, name: str, pods: int = 1) -> list[str]:
        """Kueue admits the Workload, and the pods of the job are made."""
        found = self.api.get(KUEUE_WORKLOADS, name, "default")
        found["status"]["conditions"].append({"type": "Admitted", "status": "True"})
        self.api.update(KUEUE_WORKLOADS, found, "status")
        made = [f"{name}-{number}" for number in range(pods)]
        uid = self.api.get(JOBS, name, "default")["metadata"]["uid"]
        for pod in made:
            self.add_claim(pod)
            self.add_pod(pod, pod)
            stored = self.pod(pod)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
            patch = {"metadata": {"ownerReferences": [owner]}}
            self.api.patch(PODS, pod, patch, namespace="default")
            assert stored["spec"]["schedulingGates"] == [{"name": GATE}]
        return made

    def finish(self, name: str, pods: list[str]) -> None:
        """The pods of the job end."""
        found = self.api.get(KUEUE_WORKLOADS, name, "default")
        found["status"]["conditions"].append({"type": "Finished", "status": "True"})
        self.api.update(KUEUE_WORKLOADS, found, "status")
        for pod in pods:
            self.remove_pod(pod)
            self.api.delete(RESOURCE_CLAIMS, pod, "default")

    # Looking

    def answer(self, name: str) -> tuple[str, str]:
        """State and message of the check of a Workload."""
        found = self.entry(name)
        return found["state"], found["message"]

    def entry(self, name: str) -> Object:
        checks = self.api.get(KUEUE_WORKLOADS, name, "default")["status"]["admissionChecks"]
        return next(check for check in checks if check["name"] == CHECK)

    def taken(self, *pods: str) -> None:
        """Devices that pods of others hold."""
        for pod in pods:
            self.add_claim(pod)
            self.add_pod(pod, pod)
        self.settle()
        assert all(self.devices(pod) for pod in pods)
