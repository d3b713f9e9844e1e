"""Workloads of Kueue as the API has them, and the templates that they name."""

from typing import Any

from driver.kube.api import Object

CHECK = "fits"
"""The AdmissionCheck that is ours."""


def admission_check(name: str = CHECK, controller: str = "lode.dev/fits-now") -> Object:
    return {"metadata": {"name": name}, "spec": {"controllerName": controller}}


def claim_template(name: str, device_class: str = "gpu.lode.dev", count: int = 1, **devices: Any) -> Object:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}]
    spec = {"spec": {"devices": {"requests": requests, **devices}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod_set(name: str = "main", count: int = 1, *, of: str = "gpu", claim: str = "", cpu: str = "1") -> Object:
    """Pods with a claim of the template ``of`` each; "" for none."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": of}] if of else []
    claims += [{"name": "own", "resourceClaimName": claim}] if claim else []
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"name": name, "count": count, "template": {"spec": {"containers": containers, "resourceClaims": claims}}}


def check_state(state: str = "Pending", name: str = CHECK, **more: Any) -> Object:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z", **more}


def workload(name: str, *pod_sets: Object, checks: list[Object] | None = None, **conditions: str) -> Object:
    """A Workload for a job of its name, for which quota is reserved; further conditions by type."""
    said = {"QuotaReserved": "True", **conditions}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}-workload",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}],
        },
        "spec": {"podSets": list(pod_sets or (pod_set(),))},
        "status": {
            "conditions": [{"type": kind, "status": status} for kind, status in said.items()],
            "admissionChecks": [check_state()] if checks is None else checks,
        },
    }
