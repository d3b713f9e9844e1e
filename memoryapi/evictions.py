"""Evictions (policy/v1): what PodDisruptionBudgets allow, and the marks that an eviction leaves."""

from collections.abc import Iterable

from driver.errors import Fault
from driver.kube.api import POD_DISRUPTION_BUDGETS, Conflict, Object, OverBudget
from driver.label_selectors import LabelSelector, label_selector_from
from memoryapi.kind_rules import KindRules, Write

_IGNORED_PHASES = ("Pending", "Succeeded", "Failed")
"""Phases in which a pod is evicted whatever a budget says: it does not serve anybody."""


def check_preconditions(pod: Object, uid: str, version: str) -> None:
    """Refuse a call for another pod, or another version of it.

    Raises:
        Conflict: the pod has another uid or resourceVersion; "" fits every pod.
    """
    metadata = pod["metadata"]
    for what, wanted, actual in (
        ("UID", uid, metadata["uid"]),
        ("ResourceVersion", version, metadata["resourceVersion"]),
    ):
        if wanted and wanted != actual:
            message = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({actual})"
            raise Conflict(message, status=409, reason="Conflict")


def ignores_budgets(pod: Object) -> bool:
    """Whether the pod may be evicted whatever a budget says."""
    return bool(pod["metadata"].get("deletionTimestamp")) or pod["status"].get("phase") in _IGNORED_PHASES


def used_budget(pod: Object, budgets: Iterable[Object]) -> Object | None:
    """The budget that the eviction of the pod uses up one disruption of; None if it uses none.

    Raises:
        OverBudget: a budget does not allow it now, or several select the pod.
    """
    labels = pod["metadata"].get("labels") or {}
    own = [one for one in budgets if (selector := _selector(one)) is not None and selector.selects(labels)]
    if len(own) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise OverBudget(message, status=500)
    if not own:
        return None
    (budget,) = own
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _is_ready(pod):
        always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or healthy >= desired > 0:
            return None
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise _over_budget(f"The disruption budget {name} is still being processed by the server.", 10)
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _over_budget(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently", 0)
    return budget


def after_use(budget: Object, pod: str, now: str) -> Object:
    """The budget after one more disruption, by the eviction of the pod of this name."""
    status = budget["status"]
    disrupted = {**status.get("disruptedPods", {}), pod: now}
    return {
        **budget,
        "status": {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted},
    }


def marked(pod: Object, now: str) -> Object:
    """The pod with the condition that an eviction sets."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    conditions = pod["status"].get("conditions") or []
    before: Object = next((one for one in conditions if one["type"] == condition["type"]), {})
    since = before["lastTransitionTime"] if before.get("status") == "True" else now
    others = [one for one in conditions if one["type"] != condition["type"]]
    generation = pod["metadata"]["generation"]
    mark = {**condition, "observedGeneration": generation, "lastProbeTime": None, "lastTransitionTime": since}
    return {**pod, "status": {**pod["status"], "conditions": [*others, mark]}}


def _selector(budget: Object) -> LabelSelector | None:
    return label_selector_from((budget.get("spec") or {}).get("selector"))


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _over_budget(cause: str, retry_after: float) -> OverBudget:
    message = f"Cannot evict pod as it would violate the pod's disruption budget. {cause}"
    return OverBudget(message, status=429, reason="TooManyRequests", retry_after=retry_after)


def _faults(write: Write) -> Iterable[Fault]:
    spec = write.new.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield Fault("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")


BUDGET_RULES = KindRules(POD_DISRUPTION_BUDGETS, has_status=True, counts_generation=True, faults=_faults)
