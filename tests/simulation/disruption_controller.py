"""The disruption controller: how many pods of each PodDisruptionBudget may be evicted now."""

from driver.clock import Clock
from driver.kube.api import POD_DISRUPTION_BUDGETS, PODS, Api, Object
from driver.kube.objects import is_deleting, is_terminal, name_key
from driver.label_selectors import label_selector_from
from simulation.kubernetes.component import FakeComponent, WorkKey


class DisruptionController(FakeComponent):
    """Keeps the status of budgets with ``minAvailable`` as a number up to date."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._budgets = self.watch(POD_DISRUPTION_BUDGETS, self._budget_changed)
        self._pods = self.watch(PODS, self._pod_changed)

    def _budget_changed(self, budget: Object) -> None:
        self.queue.add(("budget", *name_key(budget)))

    def _pod_changed(self, pod: Object) -> None:
        for budget in self._budgets.all():
            if budget["metadata"]["namespace"] == pod["metadata"]["namespace"]:
                self._budget_changed(budget)

    def reconcile(self, key: WorkKey) -> None:
        """Count the pods of a budget that are ready."""
        budget = self._budgets.get(key[1], key[2])
        if budget is None:
            return
        selector = label_selector_from(budget["spec"].get("selector"))
        pods = [
            pod
            for pod in self._pods.all()
            if pod["metadata"]["namespace"] == key[1]
            and not is_terminal(pod)
            and selector is not None
            and selector.selects(pod["metadata"].get("labels") or {})
        ]
        healthy = sum(_is_ready(pod) and not is_deleting(pod) for pod in pods)
        desired = int(budget["spec"].get("minAvailable", 1))
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": len(pods),
            "disruptionsAllowed": max(0, healthy - desired),
            "observedGeneration": budget["metadata"]["generation"],
            "disruptedPods": None,
        }
        known = budget.get("status") or {}
        if any(known.get(name) != value for name, value in status.items()):
            self.api.patch(POD_DISRUPTION_BUDGETS, key[2], {"status": status}, namespace=key[1], subresource="status")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
